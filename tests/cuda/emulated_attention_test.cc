// A library of attention that has no plan for a problem.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "engine/ops/attention.h"
#include "tests/cuda/kernel_comparison.h"
#include "tests/emulated_gpu/emulated_device.h"
#include "tests/support/attention_inputs.h"

namespace mtf::testing {
namespace {

TEST(EmulatedAttention, WithoutAPlanIsLeftToTheKernelsOfMtfTrain) {
  cuda_device().use_attention_library();
  Graph graph;
  CaseBuilder build(graph, DType::kBFloat16);
  const Tensor y = attention(multi_head(build, 1, 2, 20, cuda::emulator::kUnsupportedMemory, 64));
  KernelComparison comparison(y);
  comparison.tolerance = 1e-2;
  comparison.expect_same();
  std::string notes;
  for (const BackendNote& note : cuda_device().take_notes()) notes += note.text;
  EXPECT_THAT(notes,
              ::testing::HasSubstr("does not compute attention of 20 queries to 77 entries, heads of 64"));
}

}  // namespace
}  // namespace mtf::testing
