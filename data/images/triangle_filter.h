// The weights of a triangle filter, for scaling images along one dimension.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace mtf {

/// For each index of the result, the weights of some neighbouring indices of the input.
template <class Weight>
struct NeighbourFilter {
  struct Taps {
    int64_t begin;  ///< the first index of the input
    int64_t count;
    int64_t weights;  ///< index of its first weight
  };
  std::vector<Taps> taps;
  std::vector<Weight> weights;

  int64_t input_begin() const { return taps.front().begin; }
  int64_t input_end() const { return taps.back().begin + taps.back().count; }
};

/// The filter from the part begin .. end (in general not whole numbers) of `size` entries to `result_size` entries. It is
/// widened where the result is smaller, so that every entry counts. The weights of an index add up to 1 before `convert`
/// makes a Weight of each.
template <class Weight, class Convert>
NeighbourFilter<Weight> triangle_filter(int64_t size, double begin, double end, int64_t result_size,
                                        const Convert& convert) {
  NeighbourFilter<Weight> filter;
  filter.taps.reserve(static_cast<size_t>(result_size));
  const double scale = (end - begin) / static_cast<double>(result_size), width = std::max(scale, 1.0);
  std::vector<double> weights;
  for (int64_t i = 0; i < result_size; ++i) {
    const double center = begin + (static_cast<double>(i) + 0.5) * scale;
    const auto first = std::max<int64_t>(0, static_cast<int64_t>(center - width + 0.5));
    const auto last = std::min<int64_t>(size, static_cast<int64_t>(center + width + 0.5));
    weights.clear();
    double sum = 0;
    for (int64_t x = first; x < last; ++x) {
      weights.push_back(std::max(0.0, 1 - std::abs((static_cast<double>(x) - center + 0.5) / width)));
      sum += weights.back();
    }
    filter.taps.push_back({first, last - first, std::ssize(filter.weights)});
    for (const double weight : weights) filter.weights.push_back(convert(sum == 0 ? 0 : weight / sum));
  }
  return filter;
}

}  // namespace mtf
