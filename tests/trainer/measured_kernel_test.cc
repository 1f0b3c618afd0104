// Tests the timing of kernels by run.mode=calibrate, on the processor or, with MTF_TEST_DEVICES, on a GPU.
#include "trainer/calibrate/measured_kernel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "engine/ops/binary.h"
#include "tests/support/test_backend.h"

namespace mtf::testing {
namespace {

/// Seconds of a sum of vectors of `size` numbers.
double seconds_of_sum(int64_t size, double bytes_between) {
  const std::shared_ptr<Backend> backend = test_backend();
  Graph graph;
  const Shape shape{{"n", size}};
  const Tensor sum = add(graph.input("x", shape), graph.input("y", shape));
  MeasuredKernel kernel(sum.operation(), *backend, bytes_between);
  EXPECT_EQ(kernel.bytes(), 3 * 4 * static_cast<double>(size));
  const double first = kernel.seconds(1);
  return std::min(first, kernel.seconds(1));
}

TEST(MeasuredKernel, TimesExecutionsAndNotWhatSurroundsThem) {
  const double small = seconds_of_sum(1 << 10, 0), large = seconds_of_sum(1 << 22, 0);
  EXPECT_GT(small, 0);
  EXPECT_GT(large, 4 * small);
}

TEST(MeasuredKernel, ExecutesOnManySetsOfOperands) {
  constexpr double kSets = 20;
  EXPECT_GT(seconds_of_sum(1 << 10, kSets * 3 * 4 * (1 << 10)), 0);
}

}  // namespace
}  // namespace mtf::testing
