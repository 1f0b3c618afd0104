#include "trainer/programs/convert/position_grid.h"

#include <algorithm>
#include <cmath>

#include "engine/base/check.h"

namespace mtf {
namespace {

/// The cubic convolution of Keys (1981), with the slope `a` at 1.
double cubic(double x, double a) {
  x = std::abs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
  return 0;
}

/// What an entry of a line is made of.
struct Taps {
  int64_t first = 0;  ///< may lie outside of the line, whose last entry then counts
  std::vector<double> weights;
};

Taps taps_of(int64_t entry, int64_t from, int64_t to, bool antialias) {
  constexpr double kSlope = -0.75, kSlopeOfImages = -0.5;  // of PyTorch, and with `antialias` of PIL
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const double center = scale * (static_cast<double>(entry) + 0.5);
  Taps taps;
  if (!antialias) {
    taps.first = static_cast<int64_t>(std::floor(center - 0.5)) - 1;
    for (int64_t i = 0; i < 4; ++i)
      taps.weights.push_back(cubic(static_cast<double>(taps.first + i) + 0.5 - center, kSlope));
    return taps;
  }
  const double stretch = std::max(scale, 1.0), reach = 2 * stretch;
  taps.first = std::max(static_cast<int64_t>(center - reach + 0.5), int64_t{0});
  const int64_t end = std::min(static_cast<int64_t>(center + reach + 0.5), from);
  double sum = 0;
  for (int64_t i = taps.first; i < end; ++i) {
    taps.weights.push_back(cubic((static_cast<double>(i) + 0.5 - center) / stretch, kSlopeOfImages));
    sum += taps.weights.back();
  }
  for (double& weight : taps.weights) weight /= sum;
  return taps;
}

/// Resamples the middle axis of [outer, from, inner].
std::vector<double> resampled(const std::vector<double>& values, int64_t outer, int64_t from, int64_t inner,
                              int64_t to, bool antialias) {
  std::vector<double> made(static_cast<size_t>(outer * to * inner));
  for (int64_t entry = 0; entry < to; ++entry) {
    const Taps taps = taps_of(entry, from, to, antialias);
    for (int64_t o = 0; o < outer; ++o) {
      double* target = made.data() + (o * to + entry) * inner;
      for (int64_t t = 0; t < std::ssize(taps.weights); ++t) {
        const int64_t source = std::clamp<int64_t>(taps.first + t, 0, from - 1);
        const double weight = taps.weights[static_cast<size_t>(t)];
        const double* line = values.data() + (o * from + source) * inner;
        for (int64_t i = 0; i < inner; ++i) target[i] += weight * line[i];
      }
    }
  }
  return made;
}

}  // namespace

std::vector<float> resampled_positions(const std::vector<float>& vectors, int64_t tokens,
                                       const ImageSize& from, const ImageSize& to, bool antialias) {
  const int64_t count = tokens + from.rows * from.cols, width = std::ssize(vectors) / count;
  MTF_CHECK(width * count == std::ssize(vectors), "{} numbers for {} positions", vectors.size(), count);
  const auto patches = vectors.begin() + tokens * width;
  std::vector<double> values(patches, vectors.end());
  values = resampled(values, 1, from.rows, from.cols * width, to.rows, antialias);
  values = resampled(values, to.rows, from.cols, width, to.cols, antialias);
  std::vector<float> made(vectors.begin(), patches);
  for (const double value : values) made.push_back(static_cast<float>(value));
  return made;
}

}  // namespace mtf
