// Attention by the library of the device, where it was chosen: cuDNN on a GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "engine/base/error.h"
#include "engine/graph/gradients.h"
#include "engine/ops/attention.h"
#include "engine/ops/reshape.h"
#include "tests/cuda/kernel_comparison.h"
#include "tests/support/attention_inputs.h"
#include "tests/support/evaluate_tensors.h"
#include "tests/support/gpu_gate.h"

namespace mtf::testing {
namespace {

using MakeInputs = std::function<AttentionInputs(CaseBuilder&)>;

/// The test is skipped where the library is missing. It is not unloaded: this suite is a process of its own.
class LibraryAttention : public ::testing::Test {
 protected:
  void SetUp() override {
    cuda_device().take_notes();  // those of other tests of this process
    try {
      cuda_device().use_attention_library(AttentionLibraryUse::kWhereItComputes);
    } catch (const Error& error) {
      ASSERT_FALSE(is_gpu_required()) << error.what();
      GTEST_SKIP() << error.what();
    }
  }
};

/// Compares the kernels with those of the CPU. Weights and gradients of logits are rounded to bfloat16 on
/// their way.
void compare(const MakeInputs& make_inputs, const AttentionOptions& options, DType dtype) {
  Graph graph;
  CaseBuilder build(graph, dtype);
  const AttentionInputs in = make_inputs(build);
  const Tensor y = attention(in, options);
  const Tensor dq = gradients({y}, {in.q}, {build.input("dy", y.shape())})[0];
  for (const auto& [from, name, tolerance] :
       {std::tuple(y, "attention", 1e-2), {dq, "attention_gradient", 3e-2}}) {
    const Operation* operation = &from.operation();
    while (operation->name() != name) operation = &operation->inputs()[0].operation();
    KernelComparison comparison(operation->output(0));
    const std::vector<Values> inputs = evaluate(graph, operation->inputs(), build.feeds);
    for (size_t i = 0; i < inputs.size(); ++i) comparison.inputs[i].values = inputs[i];
    comparison.tolerance = tolerance;
    comparison.expect_same();
  }
}

/// The new notes, but for those on calls under a guard, which no library knows.
std::string notes() {
  std::string text;
  for (const BackendNote& note : cuda_device().take_notes())
    if (note.text.find("on a condition") == std::string::npos) text += note.text + "\n";
  return text;
}

/// Expects that the library computes both passes.
void expect_by_library(const MakeInputs& make_inputs, const AttentionOptions& options = {}) {
  compare(make_inputs, options, DType::kBFloat16);
  EXPECT_EQ(notes(), "");
}

/// The same with segments: in compute capability 8 cuDNN has no gradient of them.
void expect_by_library_with_segments(const MakeInputs& make_inputs, const AttentionOptions& options = {}) {
  compare(make_inputs, options, DType::kBFloat16);
  const std::string left = notes();
  EXPECT_TRUE(left.empty() || cuda_device().device_info()->major == 8) << left;
}

/// Expects that kernels of mtf-train compute it, and a note that says why.
void expect_by_own(const std::string& reason, const MakeInputs& make_inputs,
                   const AttentionOptions& options = {}, DType dtype = DType::kBFloat16) {
  compare(make_inputs, options, dtype);
  EXPECT_THAT(notes(), ::testing::HasSubstr("does not compute attention " + reason));
}

MakeInputs plain(int64_t b, int64_t h, int64_t l, int64_t m, int64_t d) {
  return [=](CaseBuilder& c) { return multi_head(c, b, h, l, m, d); };
}

/// Packed rows: segments of `each` entries.
MakeInputs packed(int64_t n, int64_t d, int64_t each) {
  return [=](CaseBuilder& c) {
    AttentionInputs in = multi_head(c, 2, 2, n, n, d);
    in.query_segment =
        c.values("s", {batch(2), length(n)}, DType::kInt32, packed_segments(2, n, each, n / 10));
    in.memory_segment = rename(in.query_segment, "length", "memory_length");
    return in;
  };
}

TEST_F(LibraryAttention, OfAnyLengths) {
  for (const auto& [l, m, d] :
       std::vector<std::array<int64_t, 3>>{{70, 130, 40}, {65, 64, 64}, {130, 17, 8}, {50, 60, 128}}) {
    SCOPED_TRACE(std::to_string(l) + "x" + std::to_string(m) + "x" + std::to_string(d));
    expect_by_library(plain(2, 3, l, m, d));
  }
}

TEST_F(LibraryAttention, Causal) {
  for (const auto& [l, m, d] : std::vector<std::array<int64_t, 3>>{
           {9, 9, 64}, {130, 130, 64}, {70, 70, 128}, {40, 90, 64}, {90, 40, 64}}) {
    SCOPED_TRACE(std::to_string(l) + "x" + std::to_string(m) + "x" + std::to_string(d));
    expect_by_library(plain(1, 2, l, m, d), {.causal = true});
  }
}

TEST_F(LibraryAttention, OfPackedRows) {
  expect_by_library_with_segments(packed(130, 64, 40), {.causal = true});
  expect_by_library_with_segments(packed(60, 40, 7));
}

TEST_F(LibraryAttention, OfScatteredSegments) {
  expect_by_library_with_segments([](CaseBuilder& c) {
    AttentionInputs in = multi_head(c, 2, 2, 70, 70, 64);
    Values ids(140);
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<double>(i * 7 % 10 % 3);
    in.query_segment = c.values("s", {batch(2), length(70)}, DType::kInt32, ids);
    in.memory_segment = rename(in.query_segment, "length", "memory_length");
    return in;
  });
}

TEST_F(LibraryAttention, InOtherMemoryOrders) {
  expect_by_library([](CaseBuilder& c) {
    return AttentionInputs{.q = c.input("q", {batch(2), heads(2), length(40), d_kv(64)}, -0.3, 0.3),
                           .k = c.input("k", {batch(2), heads(2), memory(50), d_kv(64)}),
                           .v = c.input("v", {memory(50), batch(2), heads(2), d_kv(64)})};
  });
  expect_by_library(
      [](CaseBuilder& c) {
        return AttentionInputs{.q = c.input("q", {heads(2), length(40), batch(2), d_kv(64)}, -0.3, 0.3),
                               .k = c.input("k", {memory(50), batch(2), heads(2), d_kv(64)}),
                               .v = c.input("v", {heads(2), batch(2), memory(50), {"d_value", 32}})};
      },
      {.value = "d_value"});
}

TEST_F(LibraryAttention, WithinASequence) {
  expect_by_library(
      [](CaseBuilder& c) {
        return AttentionInputs{.q = c.input("q", {batch(2), length(40), heads(2), d_kv(64)}, -0.3, 0.3),
                               .k = c.input("k", {batch(2), length(40), heads(2), d_kv(64)}),
                               .v = c.input("v", {batch(2), length(40), heads(2), d_kv(64)})};
      },
      {.memory_length = "length", .causal = true});
}

TEST_F(LibraryAttention, LeavesOtherMasks) {
  expect_by_own("to segments of another sequence", [](CaseBuilder& c) {
    AttentionInputs in = multi_head(c, 2, 1, 40, 40, 64);
    in.query_segment = c.values("s", {batch(2), length(40)}, DType::kInt32, packed_segments(2, 40, 9, 3));
    in.memory_segment = c.values("t", {batch(2), memory(40)}, DType::kInt32, packed_segments(2, 40, 9, 3));
    return in;
  });
  expect_by_own("within a window", plain(1, 1, 40, 40, 64), {.min_relative = -5});
  expect_by_own("with an extra logit", plain(1, 1, 40, 40, 64), {.extra_logit = 0.0});
  expect_by_own("with a soft cap", plain(1, 1, 40, 40, 64), {.soft_cap = 2.0});
  expect_by_own("with priorities", [](CaseBuilder& c) {
    AttentionInputs in = multi_head(c, 2, 1, 40, 40, 64);
    in.query_priority = c.ids("query", {batch(2), length(40)}, 3, 9);
    return in;
  });
}

TEST_F(LibraryAttention, LeavesBiasAndDropout) {
  expect_by_own("with a bias", [](CaseBuilder& c) {
    AttentionInputs in = multi_head(c, 1, 2, 40, 40, 64);
    in.bias_table = c.input("table", {heads(2), buckets(16)}, -2, 2);
    return in;
  });
  expect_by_own("with dropout", [](CaseBuilder& c) {
    AttentionInputs in = multi_head(c, 1, 2, 40, 40, 64);
    in.noise = c.input("noise", {batch(1), heads(2), memory(40)}, 0, 2);
    return in;
  });
}

TEST_F(LibraryAttention, LeavesOtherHeads) {
  expect_by_own("in float32", plain(1, 1, 40, 40, 64), {}, DType::kFloat32);
  expect_by_own("with heads of 20 columns", plain(1, 1, 40, 40, 20));
  expect_by_own("with heads of 136 columns", plain(1, 1, 40, 40, 136));
  expect_by_own("of few queries", plain(1, 1, 8, 40, 64));
  expect_by_own("with heads that share keys", [](CaseBuilder& c) {
    return AttentionInputs{.q = c.input("q", {batch(2), length(50), heads(3), d_kv(64)}, -0.2, 0.2),
                           .k = c.input("k", {batch(2), memory(50), d_kv(64)}),
                           .v = c.input("v", {batch(2), memory(50), d_kv(64)})};
  });
}

TEST_F(LibraryAttention, IsPartOfTheInstructionSet) {
  EXPECT_THAT(cuda_device().instruction_set(), ::testing::HasSubstr("cudnn"));
}

}  // namespace
}  // namespace mtf::testing
