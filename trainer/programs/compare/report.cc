// report(): the text that mtf-compare prints.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/base/printable.h"
#include "trainer/programs/compare/compare.h"
#include "trainer/programs/compare/difference_text.h"

namespace mtf {
namespace {

constexpr size_t kWorstTensors = 10;
constexpr size_t kListedNames = 5;

std::string only_in(std::string_view what, const std::vector<std::string>& a,
                    const std::vector<std::string>& b) {
  std::string text;
  if (!a.empty()) text += fmt::format("  {} only in A: {}\n", what, list_names(a, kListedNames));
  if (!b.empty()) text += fmt::format("  {} only in B: {}\n", what, list_names(b, kListedNames));
  return text;
}

/// Returns "3 differ", "all the same" or "all the same within 1e-05".
std::string outcome(size_t differing, double tolerance) {
  if (differing > 0) return fmt::format("{} {}", differing, differing == 1 ? "differs" : "differ");
  return tolerance == 0 ? "all the same" : fmt::format("all the same within {:g}", tolerance);
}

std::string config_report(const std::vector<ConfigDifference>& differences) {
  if (differences.empty()) return "\nconfiguration: the same\n";
  std::vector<std::vector<std::string>> rows{{"key", "A", "B"}};
  for (const ConfigDifference& difference : differences)
    rows.push_back({difference.path, difference.a, difference.b});
  return fmt::format("\nconfiguration: {} {}\n{}", counted(differences.size(), "key"),
                     differences.size() == 1 ? "differs" : "differ", table("<<<", rows));
}

std::string first_text(const FirstDifference& first) {
  return fmt::format("{} {} ({})", first.metric, first.values, relative_text(first.relative));
}

std::string series_report(const SeriesComparison& series, double tolerance) {
  std::string text =
      series.dataset.empty() ? "\nmetrics: " : fmt::format("\nevaluation of {}: ", series.dataset);
  if (series.steps == 0) {
    text += "no step in both\n";
  } else {
    text += fmt::format("{} in both ({} to {}), {}\n", counted(series.steps, "step"), series.first_step,
                        series.last_step, outcome(series.differing, tolerance));
  }
  if (series.first)
    text += fmt::format("  first at step {}: {}\n", series.first->step, first_text(*series.first));
  std::vector<std::vector<std::string>> rows{{"metric", "steps differ", "largest", "at step"}};
  for (const MetricDifference& metric : series.metrics) {
    if (metric.largest == 0) continue;
    rows.push_back({metric.metric, std::to_string(metric.differing), relative_text(metric.largest),
                    std::to_string(metric.largest_at_step)});
  }
  if (rows.size() > 1) text += table("<>>>", rows);
  if (series.only_a > 0) text += fmt::format("  only in A: {}\n", counted(series.only_a, "step"));
  if (series.only_b > 0) text += fmt::format("  only in B: {}\n", counted(series.only_b, "step"));
  return text + only_in("metrics", series.metrics_only_a, series.metrics_only_b);
}

std::string first_text(const TensorDifference& difference) {
  const std::string place = difference.first_place.empty() ? "" : " at " + difference.first_place;
  return fmt::format("{}{}, {} ({})", difference.name, place, difference.first_values,
                     relative_text(difference.first_relative));
}

std::string worst_tensors(std::vector<TensorDifference> differences) {
  std::stable_sort(differences.begin(), differences.end(),
                   [](const TensorDifference& x, const TensorDifference& y) {
                     return x.largest_relative > y.largest_relative;
                   });
  std::vector<std::vector<std::string>> rows{
      {"tensor", "elements", "differ", "largest absolute", "largest relative", "first at"}};
  for (const TensorDifference& difference : differences) {
    if (rows.size() > kWorstTensors) break;
    rows.push_back({difference.name, std::to_string(difference.elements),
                    std::to_string(difference.differing), relative_text(difference.largest_absolute),
                    relative_text(difference.largest_relative), difference.first_place});
  }
  std::string text = table("<>>>><", rows);
  if (differences.size() > kWorstTensors)
    text += fmt::format("  and {} with smaller differences\n",
                        counted(differences.size() - kWorstTensors, "tensor"));
  return text;
}

std::string tensors_report(const Comparison& comparison) {
  const TensorsComparison& tensors = *comparison.tensors;
  const std::string of_step =
      comparison.tensor_step ? fmt::format(" of step {}", *comparison.tensor_step) : "";
  const double tolerance = comparison.options.tolerance;
  std::string text = fmt::format("\ntensors{}: {} compared, {}\n", of_step, tensors.compared,
                                 outcome(tensors.differences.size(), tolerance));
  text += only_in("tensors", tensors.only_a, tensors.only_b);
  for (const TensorMismatch& mismatch : tensors.mismatches)
    text += fmt::format("  {} is {} in A and {} in B\n", mismatch.name, mismatch.a, mismatch.b);
  if (tensors.differences.empty() && tensors.largest_relative > 0)
    text += fmt::format("  largest: {} in {}\n", relative_text(tensors.largest_relative), tensors.largest_in);
  if (!tensors.differences.empty()) {
    text += fmt::format("  first: {}\n", first_text(tensors.differences.front()));
    text += worst_tensors(tensors.differences);
  }
  return text;
}

std::string first_of_tensors(const TensorsComparison& tensors) {
  if (!tensors.differences.empty()) return first_text(tensors.differences.front());
  if (!tensors.mismatches.empty())
    return fmt::format("{} has another dtype or shape", tensors.mismatches.front().name);
  if (!tensors.only_a.empty()) return fmt::format("{} is only in A", tensors.only_a.front());
  return fmt::format("{} is only in B", tensors.only_b.front());
}

/// Returns the first difference by step. At the same step metrics come before evaluations, and evaluations
/// before tensors.
std::string first_difference(const Comparison& comparison) {
  std::vector<std::pair<int64_t, std::string>> found;
  if (comparison.metrics && comparison.metrics->first)
    found.emplace_back(comparison.metrics->first->step, first_text(*comparison.metrics->first));
  for (const SeriesComparison& series : comparison.evaluations) {
    if (series.first)
      found.emplace_back(series.first->step, series.dataset + "/" + first_text(*series.first));
  }
  if (comparison.tensors && !comparison.tensors->same()) {
    const std::string text = "tensor " + first_of_tensors(*comparison.tensors);
    if (!comparison.tensor_step) return "first " + text;
    found.emplace_back(*comparison.tensor_step, text);
  }
  if (found.empty()) return "first key " + comparison.config->front().path;
  const auto first = std::min_element(found.begin(), found.end(),
                                      [](const auto& x, const auto& y) { return x.first < y.first; });
  return fmt::format("first at step {}, {}", first->first, first->second);
}

/// Returns the extent of the comparison, "20 steps, 2 evaluations, 4 tensors", and what was left out.
std::string extent(const Comparison& comparison) {
  std::vector<std::string> parts;
  if (comparison.only_config()) parts.emplace_back("configuration");
  if (comparison.metrics) parts.push_back(counted(comparison.metrics->steps, "step"));
  int64_t evaluations = 0;
  for (const SeriesComparison& series : comparison.evaluations) evaluations += series.steps;
  if (evaluations > 0) parts.push_back(counted(evaluations, "evaluation"));
  if (comparison.tensors) parts.push_back(counted(comparison.tensors->compared, "tensor"));
  if (comparison.metrics && comparison.metrics->only_a > 0)
    parts.push_back(counted(comparison.metrics->only_a, "step") + " only in A");
  if (comparison.metrics && comparison.metrics->only_b > 0)
    parts.push_back(counted(comparison.metrics->only_b, "step") + " only in B");
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string verdict(const Comparison& comparison) {
  if (comparison.differs()) return fmt::format("different: {}\n", first_difference(comparison));
  const double tolerance = comparison.options.tolerance;
  const std::string within = tolerance == 0 ? "" : fmt::format(" within {:g}", tolerance);
  return fmt::format("same{}: {}\n", within, extent(comparison));
}

}  // namespace

std::string report(const Comparison& comparison) {
  const CompareOptions& options = comparison.options;
  std::string text = fmt::format("A  {}\nB  {}\n", options.a, options.b);
  if (comparison.config) text += config_report(*comparison.config);
  if (comparison.metrics) text += series_report(*comparison.metrics, options.tolerance);
  for (const SeriesComparison& series : comparison.evaluations)
    text += series_report(series, options.tolerance);
  if (comparison.tensors) text += tensors_report(comparison);
  if (!comparison.notes.empty()) text += "\n";
  for (const std::string& note : comparison.notes) text += fmt::format("note: {}\n", note);
  return text + "\n" + verdict(comparison);
}

}  // namespace mtf
