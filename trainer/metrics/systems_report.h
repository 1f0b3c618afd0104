// The scores of several systems as sacreBLEU prints them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trainer/metrics/paired_test.h"
#include "trainer/metrics/report.h"

namespace mtf {

struct SystemsReport {
  std::vector<std::string> names;  ///< of the systems
  std::vector<MetricColumn> columns;
  std::optional<PairedOptions> paired;  ///< the test that was made
};

/// A table with what its numbers mean and the signatures, or with ReportFormat::kJson a list of objects.
std::string systems_report(const SystemsReport& report, const ReportOptions& options);

/// A number as Python writes it: so many digits that it is read back the same.
std::string python_number(double value);
std::string python_number(float value);

}  // namespace mtf
