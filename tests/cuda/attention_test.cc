// Attention and its gradient with each kind of mask, bias, noise and head, for each kernel that may run.
#include "engine/ops/attention.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <iterator>
#include <random>

#include "engine/graph/gradients.h"
#include "tests/cuda/kernel_comparison.h"
#include "tests/support/attention_inputs.h"
#include "tests/support/evaluate_tensors.h"

namespace mtf::testing {
namespace {

struct Problem {
  std::function<AttentionInputs(CaseBuilder&)> inputs;
  AttentionOptions options = {};
  double scale = 1;  ///< scale of the terms of sums
};

/// The dtype of the operands, and whether float32 may be rounded to tf32.
struct Format {
  DType dtype;
  bool tf32 = false;
};
constexpr Format kTf32{DType::kFloat32, true};

/// Tensor cores take weights and gradients of logits as bfloat16, so the terms of the sums have a relative
/// error of 2^-9. In tf32 all factors have an error of 2^-11.
double tolerance_of(const AttentionOperation& operation) {
  const DType dtype = operation.inputs()[0].dtype();
  const bool is_gradient = operation.name() == "attention_gradient";
  if (dtype == DType::kFloat64) return 1e-11;
  if (operation.tf32) return is_gradient ? 1e-2 : 4e-3;
  return dtype == DType::kBFloat16 && is_gradient ? 3e-2 : 1e-5;
}

const AttentionOperation& find(const Tensor& from, std::string_view name) {
  const Operation* operation = &from.operation();
  while (operation->name() != name) operation = &operation->inputs()[0].operation();
  return dynamic_cast<const AttentionOperation&>(*operation);
}

/// Compares the device's kernel with that of the CPU on the values that the operation has in the graph.
/// `scale` is about the size of the terms of its sums.
void expect_same(const Graph& graph, const CaseBuilder& build, const AttentionOperation& operation,
                 double scale) {
  KernelComparison comparison(operation.output(0));
  const std::vector<Values> inputs = evaluate(graph, operation.inputs(), build.feeds);
  for (size_t i = 0; i < inputs.size(); ++i) comparison.inputs[i].values = inputs[i];
  comparison.tolerance = scale * tolerance_of(operation);
  comparison.expect_same();
}

void expect_same(const Problem& problem, Format format, bool with_gradient = true) {
  SCOPED_TRACE(format.tf32 ? "tf32" : short_name(format.dtype));
  Graph graph;
  graph.set_matmul_precision(format.tf32 ? MatmulPrecision::kTf32 : MatmulPrecision::kFull);
  CaseBuilder build(graph, format.dtype);
  const AttentionInputs in = problem.inputs(build);
  const Tensor y = attention(in, problem.options);
  expect_same(graph, build, find(y, "attention"), problem.scale);
  if (!with_gradient) return;
  const Tensor dq = gradients({y}, {in.q}, {build.input("dy", y.shape())})[0];
  expect_same(graph, build, find(dq, "attention_gradient"), problem.scale);
}

/// Compares the kernels of every format.
void expect_same(const Problem& problem) {
  for (Format format : {Format{DType::kFloat32}, Format{DType::kFloat64}, Format{DType::kBFloat16}, kTf32})
    expect_same(problem, format);
}

/// Head sizes for tensor cores, with and without padding, and for other kernels.
constexpr int64_t kWidths[] = {64, 128, 40, 20};

TEST(CudaAttention, OfAnySizes) {
  for (const auto& [l, m, d] : std::vector<std::array<int64_t, 3>>{{1, 1, 1},
                                                                   {3, 5, 7},
                                                                   {17, 70, 5},
                                                                   {70, 130, 40},
                                                                   {65, 64, 64},
                                                                   {130, 17, 8},
                                                                   {9, 9, 150},
                                                                   {150, 200, 128}}) {
    SCOPED_TRACE(std::to_string(l) + "x" + std::to_string(m) + "x" + std::to_string(d));
    expect_same({[l = l, m = m, d = d](CaseBuilder& c) { return multi_head(c, 2, 1, l, m, d); }});
  }
}

TEST(CudaAttention, Causal) {
  for (int64_t d : kWidths) {
    for (int64_t n : {1, 9, 130}) {
      SCOPED_TRACE(std::to_string(n) + "x" + std::to_string(d));
      expect_same({[=](CaseBuilder& c) { return multi_head(c, 1, 2, n, n, d); }, {.causal = true}});
    }
  }
}

TEST(CudaAttention, OfSegments) {
  for (int64_t d : {int64_t{64}, int64_t{12}}) {
    const auto inputs = [d](CaseBuilder& c) {
      AttentionInputs in = multi_head(c, 2, 1, 150, 150, d);
      in.query_segment =
          c.values("s", {batch(2), length(150)}, DType::kInt32, packed_segments(2, 150, 40, 9));
      in.memory_segment =
          c.values("t", {batch(2), memory(150)}, DType::kInt32, packed_segments(2, 150, 40, 9));
      return in;
    };
    expect_same({inputs});
    expect_same({inputs, {.causal = true}});
  }
}

TEST(CudaAttention, OfScatteredEntries) {
  const auto inputs = [](CaseBuilder& c) {
    AttentionInputs in = multi_head(c, 2, 2, 70, 90, 64);
    Values query(140), ids(180);
    for (size_t i = 0; i < query.size(); ++i) query[i] = static_cast<double>(i % 3);
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<double>(i * 7 % 10 % 3);
    in.query_segment = c.values("s", {batch(2), length(70)}, DType::kInt32, query);
    in.memory_segment = c.values("t", {batch(2), memory(90)}, DType::kInt32, ids);
    in.noise = c.input("noise", {batch(2), heads(2), memory(90)}, 0, 2);
    return in;
  };
  expect_same({inputs, {.extra_logit = 1.0}});
}

TEST(CudaAttention, OfPriorities) {
  const auto ids = [](CaseBuilder& c) {
    AttentionInputs in = multi_head(c, 2, 1, 70, 85, 64);
    in.query_priority = c.ids("query", {batch(2), length(70)}, 3, 9);
    in.memory_priority = c.ids("memory", {batch(2), memory(85)}, 0, 9);
    return in;
  };
  expect_same({ids});
  expect_same({[&](CaseBuilder& c) {
    AttentionInputs in = ids(c);
    in.memory_priority = {};
    return in;
  }});
  expect_same({[&](CaseBuilder& c) {
    AttentionInputs in = ids(c);
    in.query_priority = {};
    in.memory_priority = c.ids("own", {memory(85)}, -25, 1);
    return in;
  }});
}

TEST(CudaAttention, InAWindow) {
  for (const bool with_positions : {false, true}) {
    const auto inputs = [=](CaseBuilder& c) {
      AttentionInputs in = multi_head(c, 1, 2, 200, 200, 64);
      if (with_positions) {
        Values positions(200);
        for (size_t i = 0; i < 200; ++i) positions[i] = static_cast<double>(i % 73);
        in.query_position = c.values("p", {length(200)}, DType::kInt32, positions);
        in.memory_position = c.values("m", {memory(200)}, DType::kInt32, positions);
      }
      return in;
    };
    expect_same({inputs, {.min_relative = -6, .max_relative = 2}});
    expect_same({inputs, {.min_relative = -70}});
  }
}

TEST(CudaAttention, WithABias) {
  for (const bool bidirectional : {false, true}) {
    for (const bool with_positions : {false, true}) {
      const auto inputs = [=](CaseBuilder& c) {
        AttentionInputs in = multi_head(c, 2, 2, 150, 161, 64);
        if (with_positions) {
          in.query_position = c.ids("p", {batch(2), length(150)}, 0, 40);
          in.memory_position = c.ids("m", {batch(2), memory(161)}, 0, 40);
        }
        in.bias_table = c.input("table", {heads(2), buckets(16)}, -2, 2);
        return in;
      };
      expect_same({inputs, {.bidirectional = bidirectional, .max_distance = 20}});
    }
  }
}

TEST(CudaAttention, WithALongBiasOfManyBuckets) {
  const auto inputs = [](CaseBuilder& c) {
    AttentionInputs in = multi_head(c, 1, 2, 100, 80, 16);
    in.query_position = c.ids("p", {length(100)}, 0, 4000);
    in.memory_position = c.ids("m", {memory(80)}, 0, 4000);
    in.bias_table = c.input("table", {heads(2), buckets(72)}, -2, 2);
    return in;
  };
  expect_same({inputs, {.max_distance = 3000}});
}

TEST(CudaAttention, OfHeadsThatShareKeys) {
  for (const bool noisy : {false, true}) {
    for (const bool biased : {false, true}) {
      const auto inputs = [=](CaseBuilder& c) {
        AttentionInputs in{.q = c.input("q", {batch(2), length(50), heads(3), d_kv(64)}, -0.2, 0.2),
                           .k = c.input("k", {batch(2), memory(50), d_kv(64)}),
                           .v = c.input("v", {batch(2), memory(50), d_kv(64)})};
        if (biased) in.bias_table = c.input("table", {heads(3), buckets(16)});
        if (noisy) in.noise = c.input("noise", {batch(2), heads(3), memory(50)}, 0, 2);
        return in;
      };
      expect_same({inputs, {.causal = true}});
    }
  }
}

TEST(CudaAttention, OfGroupsOfHeads) {
  const Dimension query_heads{"query_heads", 3};
  for (int64_t l : {2, 60}) {
    expect_same({[&](CaseBuilder& c) {
      return AttentionInputs{
          .q = c.input("q", {batch(2), heads(2), query_heads, length(l), d_kv(64)}, -0.3, 0.3),
          .k = c.input("k", {batch(2), heads(2), memory(70), d_kv(64)}),
          .v = c.input("v", {batch(2), heads(2), memory(70), d_kv(64)})};
    }});
  }
  // Two dimensions of heads that are not adjacent, with ids that differ between them.
  const Dimension others{"others", 2};
  expect_same({[&](CaseBuilder& c) {
    AttentionInputs in{.q = c.input("q", {others, batch(2), query_heads, length(20), d_kv(16)}),
                       .k = c.input("k", {batch(2), memory(70), d_kv(16)}),
                       .v = c.input("v", {batch(2), memory(70), d_kv(16)})};
    in.query_segment = c.ids("s", {length(20)}, 0, 2);
    in.memory_segment = c.ids("t", {others, memory(70)}, 0, 2);
    return in;
  }});
}

TEST(CudaAttention, OfDimensionsInAnyOrder) {
  for (int64_t d : {8, 5}) {
    expect_same({[=](CaseBuilder& c) {
                   return AttentionInputs{
                       .q = c.input("q", {heads(2), length(70), batch(2), d_kv(8)}),
                       .k = c.input("k", {memory(66), batch(2), heads(2), d_kv(8)}),
                       .v = c.input("v", {heads(2), batch(2), memory(66), {"d_value", d}}),
                       .noise = c.input("noise", {length(70), batch(2), memory(66)}, 0, 2)};
                 },
                 {.value = "d_value"}});
  }
}

TEST(CudaAttention, WithinASequence) {
  expect_same({[](CaseBuilder& c) {
                 AttentionInputs in{.q = c.input("q", {batch(2), length(140), heads(2), d_kv(64)}, -0.3, 0.3),
                                    .k = c.input("k", {batch(2), length(140), heads(2), d_kv(64)}),
                                    .v = c.input("v", {batch(2), heads(2), length(140), d_kv(64)})};
                 in.noise = c.input("noise", {batch(2), heads(2), length(140)}, 0, 2);
                 return in;
               },
               {.memory_length = "length", .min_relative = -30, .max_relative = 1}});
}

/// The scale of sums of all values.
constexpr double kManyValues = 10;

TEST(CudaAttention, OfQueriesThatSeeNothing) {
  const auto inputs = [](CaseBuilder& c) {
    AttentionInputs in = multi_head(c, 1, 2, 70, 84, 64);
    // Queries 0 to 4 see nothing; some of the entries hidden from them are hidden by two masks.
    Values query(70, 1.0), ids(84, 1.0);
    std::fill(query.begin(), query.begin() + 5, 9.0);
    in.query_segment = c.values("s", {length(70)}, DType::kInt32, query);
    in.memory_segment = c.values("t", {memory(84)}, DType::kInt32, ids);
    in.bias_table = c.input("table", {heads(2), buckets(8)});
    return in;
  };
  for (const bool causal : {false, true}) {
    expect_same({inputs, {.causal = causal, .max_distance = 16}, kManyValues});
    expect_same({inputs, {.causal = causal, .extra_logit = 0.5, .max_distance = 16}});
  }
  // The entries are hidden by index, by two masks.
  expect_same({[](CaseBuilder& c) {
                 AttentionInputs in = multi_head(c, 1, 1, 70, 84, 64);
                 Values priorities(70, 60);
                 std::fill(priorities.begin() + 10, priorities.begin() + 20, -1.0);
                 in.query_priority = c.values("p", {length(70)}, DType::kInt32, priorities);
                 return in;
               },
               {.min_relative = 20},
               kManyValues});
}

TEST(CudaAttention, OfOneQuery) {
  for (int64_t d : kWidths) {
    for (int64_t m : {1, 40, 300}) {
      const auto inputs = [=](CaseBuilder& c) {
        AttentionInputs in{.q = c.input("q", {batch(3), heads(2), d_kv(d)}, -0.5, 0.5),
                           .k = c.input("k", {batch(3), heads(2), memory(m), d_kv(d)}),
                           .v = c.input("v", {batch(3), heads(2), memory(m), d_kv(d)})};
        in.query_priority = c.values("position", {batch(3)}, DType::kInt32,
                                     {0, static_cast<double>(m / 2), static_cast<double>(m)});
        in.query_position = in.query_priority;
        in.bias_table = c.input("table", {heads(2), buckets(8)});
        return in;
      };
      expect_same({inputs, {.bidirectional = false, .max_distance = 16}});
    }
  }
}

TEST(CudaAttention, UnderASoftCap) {
  // Queries 0 to 4 see nothing.
  const auto inputs = [](CaseBuilder& c, int64_t d, bool has_bias) {
    AttentionInputs in = multi_head(c, 1, 2, 70, 84, d);
    Values query(70, 1.0), ids(84, 1.0);
    std::fill(query.begin(), query.begin() + 5, 9.0);
    std::fill(ids.begin() + 20, ids.begin() + 30, 3.0);
    in.query_segment = c.values("s", {length(70)}, DType::kInt32, query);
    in.memory_segment = c.values("t", {memory(84)}, DType::kInt32, ids);
    if (has_bias) in.bias_table = c.input("table", {heads(2), buckets(8)});
    in.noise = c.input("noise", {batch(1), heads(2), memory(84)}, 0, 2);
    return in;
  };
  for (int64_t d : {64, 20}) {  // on tensor cores, and by other kernels
    for (const bool has_bias : {false, true}) {
      SCOPED_TRACE(fmt::format("{} columns{}", d, has_bias ? " with a bias" : ""));
      expect_same({[=](CaseBuilder& c) { return inputs(c, d, has_bias); },
                   {.soft_cap = 0.9, .max_distance = 16},
                   kManyValues});
    }
    expect_same({[=](CaseBuilder& c) { return multi_head(c, 1, 1, 130, 130, d); },
                 {.causal = true, .soft_cap = 0.9}});
    expect_same({[=](CaseBuilder& c) { return multi_head(c, 1, 1, 2, 300, d); }, {.soft_cap = 0.9}});
  }
}

TEST(CudaAttention, OfFewRowsWithAllTerms) {
  for (int64_t l : {1, 2}) {
    const auto inputs = [=](CaseBuilder& c) {
      AttentionInputs in{.q = c.input("q", {batch(2), length(l), heads(3), d_kv(24)}, -0.5, 0.5),
                         .k = c.input("k", {batch(2), memory(900), d_kv(24)}),
                         .v = c.input("v", {batch(2), memory(900), {"d_value", 40}})};
      in.query_segment = c.ids("s", {batch(2), length(l)}, 0, 3);
      in.memory_segment = c.ids("t", {batch(2), memory(900)}, 1, 3);
      in.noise = c.input("noise", {batch(2), memory(900)}, 0, 2);
      return in;
    };
    expect_same({inputs, {.value = "d_value"}, kManyValues});
    expect_same({inputs, {.value = "d_value", .extra_logit = -1}});
  }
}

/// Sizes, masks, bias, noise, extra logit and soft cap drawn from a seed.
Problem random_problem(unsigned seed) {
  std::mt19937 generator(seed);
  const auto below = [&](int64_t n) { return std::uniform_int_distribution<int64_t>(0, n - 1)(generator); };
  constexpr int64_t kSizes[] = {8, 16, 24, 40, 64, 72, 96, 128, 8, 64, 128, 20, 136, 256};
  const int64_t b = 1 + below(2), h = 1 + below(2), l = 1 + below(280), d = kSizes[below(std::size(kSizes))];
  const bool square = below(2) == 0;
  const int64_t m = square ? l : 1 + below(280), value = below(3) == 0 ? kSizes[below(std::size(kSizes))] : d;
  const bool has_segments = below(2) == 0, is_packed = below(2) == 0, has_priorities = below(5) == 0;
  const bool has_bias = below(4) == 0, has_noise = below(4) == 0, has_positions = below(5) == 0;
  AttentionOptions options{.value = "d_value", .causal = below(2) == 0, .max_distance = 20};
  if (below(4) == 0) options.min_relative = -below(100);
  if (below(4) == 0) options.max_relative = below(40);
  if (below(5) == 0) options.extra_logit = 0.5;
  if (seed % 4 == 3) options.soft_cap = 1.5;
  const auto inputs = [=](CaseBuilder& c) {
    AttentionInputs in = multi_head(c, b, h, l, m, d);
    in.v = c.input("values", {batch(b), memory(m), heads(h), {"d_value", value}});
    if (has_segments && is_packed && l == m) {
      const Values ids = packed_segments(b, l, 1 + l / 3, l / 10);
      in.query_segment = c.values("s", {batch(b), length(l)}, DType::kInt32, ids);
      in.memory_segment = c.values("t", {batch(b), memory(m)}, DType::kInt32, ids);
    } else if (has_segments) {
      in.query_segment = c.ids("s", {batch(b), length(l)}, 0, 3);
      in.memory_segment = c.ids("t", {batch(b), memory(m)}, 0, 3);
    }
    if (has_priorities) in.query_priority = c.ids("priority", {batch(b), length(l)}, 3, 200);
    if (has_positions) {
      in.query_position = c.ids("p", {batch(b), length(l)}, 0, 150);
      in.memory_position = c.ids("m", {batch(b), memory(m)}, 0, 150);
    }
    if (has_bias) in.bias_table = c.input("table", {heads(h), buckets(16)});
    if (has_noise) in.noise = c.input("noise", {batch(b), heads(h), memory(m)}, 0, 2);
    return in;
  };
  return {inputs, options, kManyValues};
}

TEST(CudaAttention, OfRandomKinds) {
  for (unsigned seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(seed);
    for (const Format format : {Format{DType::kFloat32}, Format{DType::kBFloat16}, kTf32})
      expect_same(random_problem(seed), format);
  }
}

TEST(CudaAttention, ReadsNoEntriesBehindTheVisibleOnes) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (int64_t l : {1, 20}) {
      const auto inputs = [=](CaseBuilder& c) {
        Values cache(40 * 64, 1.0);
        std::fill(cache.begin() + 7 * 64, cache.end(), std::nan(""));
        const Tensor kv = c.values("kv", {memory(40), d_kv(64)}, c.floating, cache);
        AttentionInputs in{.q = c.input("q", {length(l), d_kv(64)}), .k = kv, .v = kv};
        in.query_priority = c.values("position", {}, DType::kInt32, {6});
        return in;
      };
      expect_same({inputs}, {dtype}, false);
    }
  }
}

TEST(CudaAttention, ShowsNaN) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (int64_t l : {6, 90}) {
      const auto inputs = [=](CaseBuilder& c) {
        AttentionInputs in = multi_head(c, 1, 1, l, l, 64);
        c.feeds["k"][2 * 64 + 1] = std::nan("");  // in entry 2
        return in;
      };
      expect_same({inputs, {.causal = true}}, {dtype}, false);
    }
  }
}

/// With one entry, results are its value as tensor cores take it.
TEST(CudaAttention, RoundsFactorsToTheNearestTf32) {
  Graph graph;
  graph.set_matmul_precision(MatmulPrecision::kTf32);
  CaseBuilder c(graph, DType::kFloat32);
  const Tensor y = attention(multi_head(c, 1, 1, 9, 1, 64));
  EXPECT_THAT(find(y, "attention").attributes(), ::testing::HasSubstr("tf32"));
  KernelComparison comparison(find(y, "attention").output(0));
  comparison.inputs[0].values = Values(9 * 64, 0.0);
  // 1 and 1 + 4 / 4096 have 10 bits of mantissa; truncation of 1 + 3 / 4096 would give 1.
  Values& values = comparison.inputs[2].values;
  for (int i = 0; i < 64; ++i) values.push_back(1 + (i % 2 == 0 ? 3 : 1) / 4096.0);
  comparison.tolerance = 1.1 / 4096;
  comparison.expect_same();
}

TEST(CudaAttention, OfASliceOfTheQueries) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    Graph graph;
    CaseBuilder c(graph, dtype);
    AttentionInputs in = multi_head(c, 1, 1, 200, 200, 64);
    in.bias_table = c.input("table", {heads(1), buckets(8)});
    const Tensor y = attention(in, {.causal = true, .max_distance = 16});
    KernelComparison forward(y);
    const Shape rows{batch(1), length(100), heads(1), d_kv(64)};
    const auto slice = [](ComparedOperand& operand) -> ComparedOperand& {
      const int axis = *operand.global.find("length");
      std::vector<int64_t> begin(static_cast<size_t>(operand.global.rank()), 0);
      begin[static_cast<size_t>(axis)] = 100;
      return operand.take(operand.global.resized("length", 100), begin);
    };
    slice(forward.inputs[0]);
    slice(forward.outputs[0]);
    slice(forward.outputs[1]);
    forward.tolerance = tolerance_of(find(y, "attention"));
    forward.expect_same();

    const Tensor dq = gradients({y}, {in.q}, {c.input("dy", y.shape())})[0];
    KernelComparison backward(find(dq, "attention_gradient").output(0));
    const size_t inputs = backward.inputs.size();
    slice(backward.inputs[0]).values = random_normal_values(100 * 64, 1);
    for (double& x : backward.inputs[0].values) x *= 0.125;
    for (size_t i = inputs - 3; i < inputs; ++i) slice(backward.inputs[i]);
    backward.inputs[inputs - 2].values = Values(100, 5.0);
    slice(backward.outputs[0]);
    backward.tolerance = dtype == DType::kFloat32 ? 5e-5 : 2e-2;
    backward.expect_same();
  }
}

}  // namespace
}  // namespace mtf::testing
