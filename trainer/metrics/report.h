// Scores as sacreBLEU prints them.
#pragma once

#include <span>
#include <string>

#include "trainer/metrics/metric.h"

namespace mtf {

/// kLatex is for tables of several systems; the report of one is as with kText.
enum class ReportFormat { kJson, kText, kLatex };

struct ReportOptions {
  ReportFormat format = ReportFormat::kJson;
  int64_t width = 1;  ///< decimals of scores
  bool score_only = false;
  bool short_signature = false;
  bool color = false;  ///< confidence intervals stand out on a terminal
};

/// "62.3" with a width of 1.
std::string decimals(double value, int64_t width);

/// One line per score, the "=" below one another: "BLEU|nrefs:1|... = 62.3 87.9/71.4/58.7/48.9 (BP = ...".
std::string text_report(std::span<const MetricScore> scores, const ReportOptions& options);

/// A JSON object, or for several scores a list of them; with score_only as text_report.
std::string json_report(std::span<const MetricScore> scores, const ReportOptions& options);

}  // namespace mtf
