#include "trainer/programs/compare/metric_series.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "engine/base/error.h"
#include "trainer/programs/compare/difference_text.h"

namespace mtf {
namespace {

using OrderedJson = nlohmann::ordered_json;

/// The metrics of one step, in the order of the line.
using Line = std::vector<std::pair<std::string, OrderedJson>>;
/// Lines, by step.
using Series = std::map<int64_t, Line>;
/// The series of the data sets, in the order of the file.
using AllSeries = std::vector<std::pair<std::string, Series>>;

/// True for metrics that measure the machine (times, speeds, memory) and not the training.
bool is_measured(std::string_view metric) {
  return metric == "time" || metric == "seconds" || metric.ends_with("_seconds") || metric.ends_with("_ms") ||
         metric.ends_with("_per_second") || metric.ends_with("_bytes") || metric == "mfu";
}

/// The size of the numbers, scores or products, of which a metric is a difference that may be small: it has their rounding.
/// 0 for other metrics.
double scale_of(std::string_view metric) {
  const bool is_difference = metric.ends_with("router/min_gap") || metric == "pearson" ||
                             metric == "spearman" || metric == "matthews";
  return is_difference ? 1 : 0;
}

[[noreturn]] void damaged(const std::string& file, int64_t number, const std::string& what) {
  throw Error(ErrorKind::kData, fmt::format("{}:{}: {}", file, number, what));
}

Series& series_of(AllSeries& all, const std::string& dataset) {
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const auto& entry) { return entry.first == dataset; });
  return found != all.end() ? found->second : all.emplace_back(dataset, Series()).second;
}

/// Adds a line to its series. `repeated`: a step may occur again and then replaces the earlier line.
void add_line(AllSeries& all, const OrderedJson& json, const std::string& file, int64_t number,
              bool repeated) {
  const auto step = json.find("step");
  if (step == json.end() || !step->is_number_integer())
    damaged(file, number, "there is no whole number `step`");
  const auto dataset = json.find("dataset");
  Line line;
  for (const auto& [metric, value] : json.items()) {
    if (metric != "step" && metric != "dataset" && !is_measured(metric)) line.emplace_back(metric, value);
  }
  Series& series =
      series_of(all, dataset != json.end() && dataset->is_string() ? dataset->get<std::string>() : "");
  if (!series.insert_or_assign(step->get<int64_t>(), std::move(line)).second && !repeated)
    damaged(file, number, fmt::format("step {} occurs a second time", step->get<int64_t>()));
}

AllSeries read(const std::string& file, bool repeated) {
  std::ifstream stream(file);
  if (!stream)
    throw Error(ErrorKind::kSystem, fmt::format("{}: cannot be read: {}", file, system_message(errno)));
  AllSeries all;
  std::string text;
  for (int64_t number = 1; std::getline(stream, text); ++number) {
    if (stream.eof()) break;  // an incomplete line
    const OrderedJson json = OrderedJson::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object()) damaged(file, number, "this is no JSON object");
    add_line(all, json, file, number, repeated);
  }
  return all;
}

/// Returns the number; null stands for a value that is not finite.
double number_in(const OrderedJson& value) {
  return value.is_number() ? value.get<double>() : std::numeric_limits<double>::quiet_NaN();
}

bool is_numeric(const OrderedJson& value) { return value.is_number() || value.is_null(); }

/// The largest one of the entries of lists.
double relative(const OrderedJson& a, const OrderedJson& b, double scale) {
  if (is_numeric(a) && is_numeric(b)) return relative_difference(number_in(a), number_in(b), scale);
  if (a.is_array() && b.is_array() && a.size() == b.size()) {
    double largest = 0;
    for (size_t i = 0; i < a.size(); ++i) largest = std::max(largest, relative(a[i], b[i], scale));
    return largest;
  }
  return a == b ? 0 : std::numeric_limits<double>::infinity();
}

std::string both(const OrderedJson& a, const OrderedJson& b) {
  if (is_numeric(a) && is_numeric(b)) return against(number_in(a), number_in(b));
  return fmt::format("{} against {}", a.dump(), b.dump());
}

const OrderedJson* find(const Line& line, const std::string& metric) {
  const auto found =
      std::find_if(line.begin(), line.end(), [&](const auto& entry) { return entry.first == metric; });
  return found == line.end() ? nullptr : &found->second;
}

void add_name(std::vector<std::string>& names, const std::string& name) {
  if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
}

MetricDifference& difference_of(SeriesComparison& comparison, const std::string& metric) {
  const auto found =
      std::find_if(comparison.metrics.begin(), comparison.metrics.end(),
                   [&](const MetricDifference& difference) { return difference.metric == metric; });
  return found != comparison.metrics.end() ? *found
                                           : comparison.metrics.emplace_back(MetricDifference{metric});
}

void compare_step(SeriesComparison& comparison, int64_t step, const Line& a, const Line& b,
                  double tolerance) {
  bool differs = false;
  for (const auto& [metric, value] : a) {
    const OrderedJson* other = find(b, metric);
    if (!other) {
      add_name(comparison.metrics_only_a, metric);
      continue;
    }
    const double difference = relative(value, *other, scale_of(metric));
    MetricDifference& of_metric = difference_of(comparison, metric);
    if (difference > of_metric.largest) {
      of_metric.largest = difference;
      of_metric.largest_at_step = step;
    }
    if (difference <= tolerance) continue;
    differs = true;
    ++of_metric.differing;
    if (!comparison.first) comparison.first = FirstDifference{step, metric, both(value, *other), difference};
  }
  for (const auto& [metric, value] : b) {
    if (!find(a, metric)) add_name(comparison.metrics_only_b, metric);
  }
  comparison.differing += differs;
}

SeriesComparison compare(const std::string& dataset, const Series& a, const Series& b, double tolerance) {
  SeriesComparison comparison;
  comparison.dataset = dataset;
  for (const auto& [step, line] : a) {
    const auto other = b.find(step);
    if (other == b.end()) {
      ++comparison.only_a;
      continue;
    }
    if (comparison.steps++ == 0) comparison.first_step = step;
    comparison.last_step = step;
    compare_step(comparison, step, line, other->second, tolerance);
  }
  comparison.only_b = static_cast<int64_t>(b.size()) - comparison.steps;
  return comparison;
}

}  // namespace

SeriesComparison compare_metrics(const std::string& file_a, const std::string& file_b, double tolerance) {
  AllSeries a = read(file_a, /*repeated=*/false), b = read(file_b, /*repeated=*/false);
  return compare({}, series_of(a, {}), series_of(b, {}), tolerance);
}

std::vector<SeriesComparison> compare_evaluations(const std::string& file_a, const std::string& file_b,
                                                  double tolerance) {
  AllSeries a = read(file_a, /*repeated=*/true), b = read(file_b, /*repeated=*/true);
  std::vector<SeriesComparison> comparisons;
  for (const auto& [dataset, series] : b) series_of(a, dataset);  // data sets that only `b` has come last
  for (const auto& [dataset, series] : a)
    comparisons.push_back(compare(dataset, series, series_of(b, dataset), tolerance));
  return comparisons;
}

}  // namespace mtf
