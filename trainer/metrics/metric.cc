#include "trainer/metrics/metric.h"

#include <fmt/format.h>

#include "engine/base/error.h"
#include "trainer/metrics/bootstrap.h"

namespace mtf {

void MetricSignature::add(std::string name, std::string short_name, std::string value) {
  fields_.push_back({std::move(name), std::move(short_name), std::move(value)});
}

std::string MetricSignature::to_string(bool short_names) const {
  std::string text;
  for (const SignatureField& field : fields_) {
    text += fmt::format("{}{}:{}", text.empty() ? "" : "|", short_names ? field.short_name : field.name,
                        field.value);
  }
  return text;
}

SegmentStatistics::SegmentStatistics(TextMetric& metric, std::span<const std::string> hypotheses,
                                     const References& references)
    : segments_(hypotheses.size()), width_(metric.width()), values_(segments_ * width_) {
  std::vector<std::string> names;
  for (size_t r = 1; r <= references.size(); ++r) names.push_back(fmt::format("reference {}", r));
  check_line_counts(hypotheses.size(), "the hypothesis", references, names);
  std::vector<const std::string*> of_segment(references.size());
  for (size_t i = 0; i < segments_; ++i) {
    for (size_t r = 0; r < references.size(); ++r) of_segment[r] = &references[r][i];
    metric.measure(hypotheses[i], of_segment, std::span(values_).subspan(i * width_, width_));
  }
}

std::vector<double> SegmentStatistics::sums() const {
  std::vector<double> sums(width_, 0.0);
  for (size_t i = 0; i < segments_; ++i) {
    const std::span<const double> values = row(i);
    for (size_t k = 0; k < width_; ++k) sums[k] += values[k];
  }
  return sums;
}

MetricScore corpus_score(TextMetric& metric, std::span<const std::string> hypotheses,
                         const References& references, int64_t bootstrap_samples) {
  const SegmentStatistics statistics(metric, hypotheses, references);
  const std::vector<double> sums = statistics.sums();
  MetricScore score{.name = metric.name(), .value = metric.value(sums), .details = metric.details(sums)};
  if (bootstrap_samples > 1) score.confidence = bootstrap(metric, statistics, bootstrap_samples);
  std::optional<Resampling> resampling;
  if (score.confidence) resampling = Resampling{"bs", score.confidence->samples, score.confidence->seed};
  score.signature = signature_of(metric, references.size(), resampling);
  return score;
}

MetricSignature signature_of(const TextMetric& metric, size_t references,
                             const std::optional<Resampling>& resampling) {
  MetricSignature signature;
  signature.add("nrefs", "#", std::to_string(references));
  if (resampling) {
    signature.add(resampling->kind, resampling->kind, std::to_string(resampling->samples));
    signature.add("seed", "rs", resampling->seed);
  }
  metric.sign(signature);
  signature.add("version", "v", kSacrebleuVersion);
  return signature;
}

void check_line_counts(size_t hypotheses, const std::string& hypothesis_name, const References& references,
                       const std::vector<std::string>& reference_names) {
  if (references.empty()) throw Error(ErrorKind::kUsage, "there is no reference", "give at least one");
  for (size_t r = 0; r < references.size(); ++r) {
    if (references[r].size() == hypotheses) continue;
    throw Error(ErrorKind::kUsage,
                fmt::format("{} has {} lines, {} has {}", hypothesis_name, hypotheses, reference_names[r],
                            references[r].size()),
                "line i of each is for the same sentence");
  }
  if (hypotheses == 0)
    throw Error(ErrorKind::kUsage, fmt::format("{} and the references are empty", hypothesis_name),
                "one sentence a line");
}

}  // namespace mtf
