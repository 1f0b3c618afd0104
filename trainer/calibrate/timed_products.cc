#include "trainer/calibrate/timed_products.h"

#include <algorithm>
#include <limits>

namespace mtf {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// Times each product once more; `least` keeps the least times.
void take_turn(std::vector<TimedProduct>& products, std::vector<double>& least) {
  least.resize(products.size(), kNever);
  for (size_t i = 0; i < products.size(); ++i) least[i] = std::min(least[i], products[i].kernel->seconds(1));
}

}  // namespace

std::vector<MeasuredProduct> timed_in_turns(std::vector<TimedProduct>& products, int rounds) {
  std::vector<double> seconds;
  for (int round = 0; round < rounds; ++round) take_turn(products, seconds);
  std::vector<MeasuredProduct> measured;
  for (size_t i = 0; i < products.size(); ++i) {
    measured.push_back(products[i].product);
    measured[i].seconds = seconds[i] / products[i].count;
  }
  return measured;
}

double exposed_share(std::vector<TimedProduct>& warm, std::vector<TimedProduct>& cold, double bandwidth,
                     int rounds) {
  std::vector<double> seconds, cold_seconds;
  for (int round = 0; round < 2 * rounds; ++round) {
    take_turn(warm, seconds);
    take_turn(cold, cold_seconds);
  }
  double more = 0, bytes = 0;
  for (size_t i = 0; i < warm.size(); ++i) {
    more += cold_seconds[i] - seconds[i];
    bytes += cold[i].kernel->bytes();
  }
  return std::clamp(more / (bytes / bandwidth), 0.0, 1.0);
}

}  // namespace mtf
