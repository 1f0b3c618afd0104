#include "trainer/metrics/correlation.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <vector>

#include "engine/base/check.h"

namespace mtf {
namespace {

double mean_of(std::span<const double> numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), 0.0) / static_cast<double>(numbers.size());
}

/// The ranks from 1 on.
std::vector<double> ranks_of(std::span<const double> numbers) {
  std::vector<size_t> order(numbers.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) { return numbers[i]; });
  std::vector<double> ranks(numbers.size());
  for (size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    while (end < order.size() && numbers[order[end]] == numbers[order[begin]]) ++end;
    for (size_t i = begin; i < end; ++i) ranks[order[i]] = static_cast<double>(begin + 1 + end) / 2;
  }
  return ranks;
}

}  // namespace

double pearson(std::span<const double> a, std::span<const double> b) {
  MTF_CHECK(a.size() == b.size(), "{} and {} numbers", a.size(), b.size());
  if (a.empty()) return 0;
  const double mean_a = mean_of(a), mean_b = mean_of(b);
  double products = 0, squares_a = 0, squares_b = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double x = a[i] - mean_a, y = b[i] - mean_b;
    products += x * y;
    squares_a += x * x;
    squares_b += y * y;
  }
  return squares_a > 0 && squares_b > 0 ? products / std::sqrt(squares_a) / std::sqrt(squares_b) : 0;
}

double spearman(std::span<const double> a, std::span<const double> b) {
  return pearson(ranks_of(a), ranks_of(b));
}

}  // namespace mtf
