#include "trainer/metrics/systems_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "trainer/metrics/grid_table.h"

namespace mtf {
namespace {

/// Differences with a larger p-value are not significant.
constexpr double kSignificance = 0.05;

/// Colours text for a terminal.
class Colors {
 public:
  explicit Colors(bool on) : on_(on) {}
  std::string red(const std::string& text) const { return colored(text, 31); }
  std::string green(const std::string& text) const { return colored(text, 32); }
  std::string yellow(const std::string& text) const { return colored(text, 33); }
  std::string cyan(const std::string& text) const { return colored(text, 36); }

 private:
  std::string colored(const std::string& text, int code) const {
    return on_ ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : text;
  }
  bool on_;
};

template <class Number>
std::string shortest_number(Number value) {
  const std::string text = fmt::format("{}", value);
  return text.find_first_not_of("-0123456789") == std::string::npos ? text + ".0" : text;
}

std::string ascii_json_text(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

/// Returns a score as a JSON object. Intervals in single precision have only as many digits as a float needs.
std::string json_object(const SystemScore& score) {
  const auto number = [](const std::optional<double>& value) {
    return value ? python_number(*value) : std::string("null");
  };
  std::string mean = "null", half_width = "null";
  if (score.confidence) {
    const auto in_precision = [&](double value) {
      return score.confidence->single_precision ? python_number(static_cast<float>(value))
                                                : python_number(value);
    };
    mean = in_precision(score.confidence->mean);
    half_width = in_precision(score.confidence->half_width);
  }
  constexpr std::string_view kIndent = "            ";
  return fmt::format(
      "{{\n{0}\"score\": {1},\n{0}\"p_value\": {2},\n{0}\"mean\": {3},\n{0}\"ci\": {4}\n        }}", kIndent,
      python_number(score.value), number(score.p_value), mean, half_width);
}

std::string json_list(const SystemsReport& report, const ReportOptions& options) {
  std::vector<std::string> systems;
  for (size_t s = 0; s < report.names.size(); ++s) {
    std::vector<std::string> entries{fmt::format("\"system\": {}", ascii_json_text(report.names[s]))};
    for (const MetricColumn& column : report.columns) {
      const SystemScore& score = column.scores[s];
      entries.push_back(fmt::format(
          "{}: {}", ascii_json_text(column.name),
          report.paired ? json_object(score) : ascii_json_text(decimals(score.value, options.width))));
    }
    systems.push_back(fmt::format("    {{\n        {}\n    }}", fmt::join(entries, ",\n        ")));
  }
  return fmt::format("[\n{}\n]\n", fmt::join(systems, ",\n"));
}

std::string cell_of(const SystemScore& score, const ReportOptions& options, const Colors& colors) {
  std::string cell = decimals(score.value, options.width);
  if (score.confidence)
    cell += fmt::format(" ({} ± {})", decimals(score.confidence->mean, options.width),
                        decimals(score.confidence->half_width, options.width));
  if (score.p_value) {
    const std::string p = fmt::format("(p = {:.4f})", *score.p_value);
    cell += (options.format == ReportFormat::kText ? "\n" : " ") +
            (*score.p_value > kSignificance ? colors.red(p) : p + "*");
  }
  return cell;
}

bool has_baseline_name(const SystemsReport& report) { return report.names.front().starts_with("Baseline:"); }

GridTable table_of(const SystemsReport& report, const ReportOptions& options, const Colors& colors) {
  const bool bootstrap = report.paired && report.paired->test == PairedTest::kBootstrap;
  GridTable table{.header = {colors.cyan("System")}, .rows = {}};
  for (const MetricColumn& column : report.columns)
    table.header.push_back(colors.cyan(column.name + (bootstrap ? " (μ ± 95% CI)" : "")));
  for (size_t s = 0; s < report.names.size(); ++s) {
    std::vector<std::string>& row = table.rows.emplace_back();
    row.push_back(report.names[s]);
    for (const MetricColumn& column : report.columns)
      row.push_back(cell_of(column.scores[s], options, colors));
    if (s > 0 || !has_baseline_name(report)) continue;
    for (std::string& cell : row) cell = colors.yellow(cell);
  }
  return table;
}

std::string explanation(const SystemsReport& report, const Colors& colors) {
  const bool bootstrap = report.paired->test == PairedTest::kBootstrap;
  const std::string title = fmt::format("Paired {} test with {} {}",
                                        bootstrap ? "bootstrap resampling" : "approximate randomization",
                                        report.paired->samples, bootstrap ? "resampling trials" : "trials");
  const std::string line(title.size(), '-');
  return fmt::format(
      R"({line}
{title}
{line}
 - Each system is pairwise compared to {name}.
   Actual system score {provided} provided for each metric.

 - {Null}: the system and the {baseline} translations are essentially
   generated by the same underlying process. For a given system and the {baseline},
   the p-value is roughly the probability of the absolute score difference (delta)
   or higher occurring due to chance, under the assumption that the {null} is correct.

 - Assuming a significance threshold of 0.05, the {null} can be rejected
   for p-values < 0.05 (marked with "*"). This means that the delta is unlikely to be attributed
   to chance, hence the system is significantly "different" than the {baseline}.
   Otherwise, the p-values are {red}.

 - NOTE: Significance does not tell whether a system is "better" than the {baseline} but rather
   emphasizes the "difference" of the systems in terms of the replicability of the delta.

)",
      fmt::arg("line", line), fmt::arg("title", title),
      fmt::arg("name", colors.yellow(has_baseline_name(report) ? report.names.front() : "")),
      fmt::arg("provided", bootstrap ? "/ bootstrap estimated true mean / 95% CI are" : "is"),
      fmt::arg("Null", colors.green("Null hypothesis")), fmt::arg("null", colors.green("null hypothesis")),
      fmt::arg("baseline", colors.yellow("baseline")), fmt::arg("red", colors.red("highlighted in red")));
}

std::string signatures(const SystemsReport& report, const ReportOptions& options) {
  std::string text = "-----------------\nMetric signatures\n-----------------\n";
  for (const MetricColumn& column : report.columns)
    text += fmt::format(" - {:<10} {}\n", column.name, column.signature.to_string(options.short_signature));
  return text;
}

}  // namespace

std::string python_number(double value) { return shortest_number(value); }
std::string python_number(float value) { return shortest_number(value); }

std::string systems_report(const SystemsReport& report, const ReportOptions& options) {
  if (options.format == ReportFormat::kJson) return json_list(report, options);
  const Colors colors(options.color);
  const GridTable table = table_of(report, options, colors);
  return (options.format == ReportFormat::kText ? fancy_grid(table) : latex_table(table)) + "\n" +
         (report.paired ? explanation(report, colors) : "") + signatures(report, options);
}

}  // namespace mtf
