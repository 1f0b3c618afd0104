// Formats the scores of several systems as sacreBLEU prints them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trainer/metrics/paired_test.h"
#include "trainer/metrics/report.h"

namespace mtf {

struct SystemsReport {
  std::vector<std::string> names;  ///< [systems]
  std::vector<MetricColumn> columns;
  std::optional<PairedOptions> paired;  ///< the significance test, if one was made
};

/// Returns a table with explanations and signatures, or with ReportFormat::kJson a list of objects.
std::string systems_report(const SystemsReport& report, const ReportOptions& options);

/// Returns a number in Python's format: the shortest text that is read back as the same number.
std::string python_number(double value);
std::string python_number(float value);

}  // namespace mtf
