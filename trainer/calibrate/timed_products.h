// Products that are timed in turns: what disturbs one round disturbs neighbours in it, and not the same ones in the next.
#pragma once

#include <memory>
#include <vector>

#include "trainer/calibrate/fit_rates.h"
#include "trainer/calibrate/measured_kernel.h"

namespace mtf {

/// A product, and the kernel that computes `count` of them.
struct TimedProduct {
  MeasuredProduct product;
  std::unique_ptr<MeasuredKernel> kernel;
  double count = 1;
};

/// Returns the products with the least times of `rounds` rounds.
std::vector<MeasuredProduct> timed_in_turns(std::vector<TimedProduct>& products, int rounds);

/// Returns the share of the time of their bytes that products take longer with operands in memory (`cold`) than the
/// same ones with operands in the cache (`warm`). `bandwidth`: bytes in a second.
double exposed_share(std::vector<TimedProduct>& warm, std::vector<TimedProduct>& cold, double bandwidth,
                     int rounds);

}  // namespace mtf
