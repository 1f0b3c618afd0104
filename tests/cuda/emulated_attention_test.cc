// A library of attention that has no plan for a problem.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "engine/ops/attention.h"
#include "engine/ops/reshape.h"
#include "tests/cuda/kernel_comparison.h"
#include "tests/emulated_gpu/emulated_device.h"
#include "tests/support/attention_inputs.h"

namespace mtf::testing {
namespace {

TEST(EmulatedAttention, WithoutAPlanIsLeftToTheKernelsOfMtfTrain) {
  cuda_device().use_attention_library(AttentionLibraryUse::kWhereItComputes);
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

TEST(EmulatedAttention, OfOneTextInARowNeedsNoSegments) {
  cuda_device().use_attention_library(AttentionLibraryUse::kWhereItComputes);
  constexpr int64_t kLength = cuda::emulator::kUnsupportedMemory;
  for (const bool one_text : {false, true}) {
    Graph graph;
    CaseBuilder build(graph, DType::kBFloat16);
    AttentionInputs in = multi_head(build, 1, 2, kLength, kLength, 64);
    in.query_segment = graph.constant(1, DType::kInt32, {batch(1), length(kLength)});
    in.memory_segment = rename(in.query_segment, "length", "memory_length");
    const Tensor y = attention(in, {.causal = true, .one_text = one_text});
    KernelComparison comparison(y);
    comparison.tolerance = 1e-2;
    comparison.inputs[3].values = comparison.inputs[4].values = Values(kLength, 1);
    comparison.expect_same();
    std::string notes;
    for (const BackendNote& note : cuda_device().take_notes()) notes += note.text;
    EXPECT_THAT(notes, ::testing::HasSubstr("does not compute attention of 77 queries"));
    EXPECT_EQ(notes.find("with segments") == std::string::npos, one_text) << notes;
  }
}

}  // namespace
}  // namespace mtf::testing
