#include "trainer/metrics/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "engine/base/printable.h"

namespace mtf {
namespace {

/// True if a confidence interval is printed: one around a mean of 0 is omitted.
bool has_interval(const MetricScore& score) { return score.confidence && score.confidence->mean > 0; }

/// Returns "μ = 62.3 ± 1.9".
std::string interval_text(const MetricScore& score, int64_t width) {
  return fmt::format("μ = {} ± {}", decimals(score.confidence->mean, width),
                     decimals(score.confidence->half_width, width));
}

std::string value_text(const MetricScore& score, const ReportOptions& options) {
  std::string text = decimals(score.value, options.width);
  if (has_interval(score)) {
    const std::string interval = interval_text(score, options.width);
    text += options.color ? fmt::format(" \x1b[36m({})\x1b[0m", interval) : fmt::format(" ({})", interval);
  }
  return text;
}

std::string score_line(const MetricScore& score, const ReportOptions& options) {
  if (options.score_only) return value_text(score, options);
  const std::string details = score.details.empty() ? "" : " " + score.details;
  return fmt::format("{}|{} = {}{}", score.name, score.signature.to_string(options.short_signature),
                     value_text(score, options), details);
}

nlohmann::ordered_json score_object(const MetricScore& score, const ReportOptions& options) {
  const auto rounded = [&](double value) {
    return std::strtod(decimals(value, options.width).c_str(), nullptr);
  };
  nlohmann::ordered_json object;
  object["name"] = score.name;
  object["score"] = rounded(score.value);
  object["signature"] = score.signature.to_string();
  if (has_interval(score)) {
    object["confidence_mean"] = rounded(score.confidence->mean);
    object["confidence_var"] = rounded(score.confidence->half_width);
    object["confidence"] = interval_text(score, options.width);
  }
  if (!score.details.empty()) object["verbose_score"] = score.details;
  for (const SignatureField& field : score.signature.fields()) object[field.name] = field.value;
  return object;
}

/// Returns the number of characters before the first "=".
int columns_before_value(const std::string& line) {
  const size_t at = line.find('=');
  return at == std::string::npos ? 0 : character_count(std::string_view(line).substr(0, at));
}

}  // namespace

std::string decimals(double value, int64_t width) { return fmt::format("{:.{}f}", value, width); }

std::string text_report(std::span<const MetricScore> scores, const ReportOptions& options) {
  std::vector<std::string> lines;
  int columns = 0;
  for (const MetricScore& score : scores) {
    lines.push_back(score_line(score, options));
    columns = std::max(columns, columns_before_value(lines.back()));
  }
  std::string text;
  for (const std::string& line : lines) {
    const int before = columns_before_value(line);
    text += std::string(before > 0 ? static_cast<size_t>(columns - before) : 0, ' ') + line + "\n";
  }
  return text;
}

std::string json_report(std::span<const MetricScore> scores, const ReportOptions& options) {
  std::vector<std::string> objects;
  for (const MetricScore& score : scores)
    objects.push_back(options.score_only ? value_text(score, options) : score_object(score, options).dump(1));
  const std::string text = fmt::format("{}", fmt::join(objects, ",\n"));
  return objects.size() > 1 ? "[\n" + text + "\n]\n" : text + "\n";
}

}  // namespace mtf
