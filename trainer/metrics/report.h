// Formats scores as sacreBLEU prints them.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "trainer/metrics/metric.h"

namespace mtf {

/// The format of a report. kLatex applies to tables of several systems; for one system it is like kText.
enum class ReportFormat { kJson, kText, kLatex };

struct ReportOptions {
  ReportFormat format = ReportFormat::kJson;
  int64_t width = 1;  ///< number of decimals of scores
  bool score_only = false;
  bool short_signature = false;
  bool color = false;  ///< highlights confidence intervals on a terminal
};

/// Returns "62.3" with a width of 1.
std::string decimals(double value, int64_t width);

/// Returns one line per score, with aligned "=": "BLEU|nrefs:1|... = 62.3 87.9/71.4/58.7/48.9 (BP = ...".
std::string text_report(std::span<const MetricScore> scores, const ReportOptions& options);

/// Returns a JSON object, or a list of them for several scores; with score_only the same as text_report().
std::string json_report(std::span<const MetricScore> scores, const ReportOptions& options);

}  // namespace mtf
