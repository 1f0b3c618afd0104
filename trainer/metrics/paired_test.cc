#include "trainer/metrics/paired_test.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <type_traits>

#include "trainer/metrics/bootstrap.h"
#include "trainer/metrics/numpy_random.h"

namespace mtf {
namespace {

/// Adds contiguous numbers in the order of numpy: in blocks of at most 128, with eight running sums in each.
template <class Number>
Number numpy_sum(std::span<const Number> values) {
  constexpr size_t kBlock = 128, kLanes = 8;
  const size_t size = values.size();
  if (size > kBlock) {
    const size_t half = size / 2 / kLanes * kLanes;
    return numpy_sum(values.first(half)) + numpy_sum(values.subspan(half));
  }
  size_t done = 0;
  Number sum = 0;
  if (size >= kLanes) {
    Number lanes[kLanes];
    std::copy_n(values.begin(), kLanes, lanes);
    for (done = kLanes; done + kLanes <= size; done += kLanes)
      for (size_t k = 0; k < kLanes; ++k) lanes[k] += values[done + k];
    sum = ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
  }
  for (; done < size; ++done) sum += values[done];
  return sum;
}

template <class Number>
Number numpy_mean(std::span<const Number> values) {
  return numpy_sum(values) / static_cast<Number>(values.size());
}

template <class Number>
Confidence interval(std::vector<Number> scores, const Seed& seed) {
  std::ranges::sort(scores);
  const size_t left_out = scores.size() / 40;
  return {.mean = static_cast<double>(numpy_mean(std::span<const Number>(scores))),
          .half_width = static_cast<double>(static_cast<Number>(0.5) *
                                            (scores[scores.size() - left_out - 1] - scores[left_out])),
          .samples = static_cast<int64_t>(scores.size()),
          .seed = seed.name,
          .single_precision = std::is_same_v<Number, float>};
}

/// Returns the fraction of trials whose value is above the observed difference, which counts as one of them.
template <class Number>
double p_value(const std::vector<Number>& trials, double seen) {
  const auto above =
      std::ranges::count_if(trials, [&](Number trial) { return trial > static_cast<Number>(seen); });
  return static_cast<double>(above + 1) / static_cast<double>(trials.size() + 1);
}

/// Number is the type of the scores of resampled corpora: float for all metrics except BLEU.
template <class Number>
std::vector<SystemScore> by_bootstrap(const TextMetric& metric, const std::vector<SegmentStatistics>& systems,
                                      int64_t samples, const Seed& seed) {
  std::vector<SystemScore> scores;
  std::vector<Number> baseline;
  for (const SegmentStatistics& statistics : systems) {
    const std::vector<double> resampled = resampled_scores(metric, statistics, samples, seed);
    std::vector<Number> own(resampled.begin(), resampled.end());
    SystemScore& score = scores.emplace_back();
    score.value = metric.value(std::span<const double>(statistics.sums()));
    score.confidence = interval(own, seed);
    if (baseline.empty()) {
      baseline = std::move(own);
      continue;
    }
    std::vector<Number> differences;
    for (size_t i = 0; i < own.size(); ++i) differences.push_back(std::abs(own[i] - baseline[i]));
    const Number mean = numpy_mean(std::span<const Number>(differences));
    for (Number& difference : differences) difference -= mean;
    score.p_value = p_value(differences, std::abs(scores.front().value - score.value));
  }
  return scores;
}

/// Returns absolute differences of two systems whose outputs are swapped in each segment with probability
/// 1/2.
std::vector<double> shuffled_differences(const TextMetric& metric, const SegmentStatistics& baseline,
                                         const SegmentStatistics& system, int64_t trials, const Seed& seed) {
  NumpyRandom random(seed.value);
  std::vector<double> differences;
  for (int64_t trial = 0; trial < trials; ++trial) {
    std::vector<double> first(metric.width()), second(metric.width());
    for (size_t i = 0; i < baseline.segments(); ++i) {
      const bool stays = random.next_bit();
      const std::span<const double> a = stays ? baseline.row(i) : system.row(i);
      const std::span<const double> b = stays ? system.row(i) : baseline.row(i);
      for (size_t k = 0; k < first.size(); ++k) {
        first[k] += a[k];
        second[k] += b[k];
      }
    }
    differences.push_back(std::abs(metric.trial_value(first) - metric.trial_value(second)));
  }
  return differences;
}

std::vector<SystemScore> by_randomization(const TextMetric& metric,
                                          const std::vector<SegmentStatistics>& systems, int64_t trials,
                                          const Seed& seed) {
  std::vector<SystemScore> scores;
  for (const SegmentStatistics& statistics : systems) {
    SystemScore& score = scores.emplace_back();
    score.value = metric.value(std::span<const double>(statistics.sums()));
    if (scores.size() == 1) continue;
    score.p_value = p_value(shuffled_differences(metric, systems.front(), statistics, trials, seed),
                            std::abs(scores.front().value - score.value));
  }
  return scores;
}

}  // namespace

MetricColumn paired_test(TextMetric& metric, const std::vector<std::vector<std::string>>& systems,
                         const References& references, const PairedOptions& options) {
  const Seed seed = read_seed();
  std::vector<SegmentStatistics> statistics;
  for (const std::vector<std::string>& system : systems) statistics.emplace_back(metric, system, references);
  const bool bootstrap = options.test == PairedTest::kBootstrap;
  MetricColumn column;
  column.name = metric.name();
  column.signature = signature_of(metric, references.size(),
                                  Resampling{bootstrap ? "bs" : "ar", options.samples, seed.name});
  column.scores = !bootstrap ? by_randomization(metric, statistics, options.samples, seed)
                  : metric.single_precision_value()
                      ? by_bootstrap<float>(metric, statistics, options.samples, seed)
                      : by_bootstrap<double>(metric, statistics, options.samples, seed);
  return column;
}

}  // namespace mtf
