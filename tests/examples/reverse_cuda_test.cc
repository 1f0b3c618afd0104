// Tests the CUDA kernel of the operation `reverse` against that of the processor.
#include <gtest/gtest.h>

#include "tests/cuda/kernel_comparison.h"
#include "tests/examples/reverse.h"

namespace mtf::testing {
namespace {

TEST(ExampleReverse, IsTheSameOnTheGpu) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat64, DType::kBool}) {
    for (const char* dimension : {"outer", "length", "inner"}) {
      Graph graph;
      const Tensor x = graph.input("x", {{"outer", 3}, {"length", 7}, {"inner", 40}}, dtype);
      KernelComparison(reverse(x, dimension)).expect_same();
    }
  }
}

}  // namespace
}  // namespace mtf::testing
