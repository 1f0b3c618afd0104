#include "trainer/metrics/bootstrap.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <string>

#include "data/text/lowercase.h"
#include "engine/base/error.h"
#include "engine/base/parse_number.h"
#include "trainer/metrics/numpy_random.h"

namespace mtf {
namespace {

/// Returns the interval without the lowest and the highest fortieth of the scores. `single`: the scores are
/// float32 and, as in numpy, so are the interval's mean and half width.
Confidence interval(std::vector<double> scores, bool single) {
  std::ranges::sort(scores);
  const size_t left_out = scores.size() / 40;
  const double lower = scores[left_out], upper = scores[scores.size() - left_out - 1];
  long double sum = 0;
  for (const double score : scores) sum += score;
  const long double mean = sum / static_cast<long double>(scores.size());
  Confidence confidence;
  if (single) {
    confidence.mean = static_cast<float>(mean);
    confidence.half_width = 0.5f * (static_cast<float>(upper) - static_cast<float>(lower));
  } else {
    confidence.mean = static_cast<double>(mean);
    confidence.half_width = 0.5 * (upper - lower);
  }
  return confidence;
}

}  // namespace

Seed read_seed() {
  const char* const setting = std::getenv("SACREBLEU_SEED");
  const std::string text = setting == nullptr ? "12345" : to_lower_case(setting);
  if (text == "none") {
    std::random_device device;
    return {text, static_cast<uint64_t>(device()) << 32 | device()};
  }
  const auto value = parse_number<uint64_t>(text);
  if (!value) {
    throw Error(ErrorKind::kUsage, fmt::format("SACREBLEU_SEED: `{}` is not a seed", text),
                "a whole number from 0, or `none`");
  }
  return {text, *value};
}

std::vector<double> resampled_scores(const TextMetric& metric, const SegmentStatistics& statistics,
                                     int64_t samples, const Seed& seed) {
  NumpyRandom random(seed.value);
  const size_t width = metric.width(), segments = statistics.segments();
  std::vector<float> rows;
  for (size_t i = 0; i < segments; ++i) {
    for (const double value : statistics.row(i)) rows.push_back(static_cast<float>(value));
  }
  std::vector<double> scores;
  std::vector<float> sums(width);
  for (int64_t sample = 0; sample < samples; ++sample) {
    std::ranges::fill(sums, 0.0f);
    for (size_t draw = 0; draw < segments; ++draw) {
      const float* const row = &rows[width * random.below(static_cast<uint32_t>(segments))];
      for (size_t k = 0; k < width; ++k) sums[k] += row[k];
    }
    scores.push_back(metric.value(std::span<const float>(sums)));
  }
  return scores;
}

Confidence bootstrap(const TextMetric& metric, const SegmentStatistics& statistics, int64_t samples) {
  const Seed seed = read_seed();
  Confidence confidence =
      interval(resampled_scores(metric, statistics, samples, seed), metric.single_precision_value());
  confidence.samples = samples;
  confidence.seed = seed.name;
  return confidence;
}

}  // namespace mtf
