#include "engine/ops/attention.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <optional>

#include "engine/backend/cpu/elementwise/cpu_math.h"
#include "engine/base/error.h"
#include "engine/graph/gradients.h"
#include "engine/ops/slice.h"
#include "engine/ops/unary.h"
#include "tests/support/attention_inputs.h"
#include "tests/support/evaluate_tensors.h"
#include "tests/support/golden.h"
#include "tests/support/run_on_mesh.h"
#include "tests/support/test_backend.h"

namespace mtf::testing {
namespace {

/// A problem: builds operands in a graph of any dtype.
struct Problem {
  std::function<AttentionInputs(CaseBuilder&)> inputs;
  AttentionOptions options = {};
  bool with_log_sum = false;  ///< its values and their part of the gradients, too
};

/// Returns the results and the gradients of q, k, v and the table, for cotangents that differ between
/// elements.
std::vector<Values> values_and_gradients(const Problem& problem, DType dtype, bool fused) {
  Graph graph;
  CaseBuilder build(graph, dtype);
  const AttentionInputs in = problem.inputs(build);
  const auto [y, log_sum] =
      fused ? attention_with_log_sum(in, problem.options) : composed_attention(in, problem.options);
  Tensors ys{y}, dys{build.input("dy", y.shape())};
  if (problem.with_log_sum) {
    ys.push_back(log_sum);
    dys.push_back(build.input("dl", without(in.q.shape(), problem.options.key)));
  }
  Tensors xs{in.q, in.k};
  if (in.v != in.k) xs.push_back(in.v);
  if (in.bias_table) xs.push_back(in.bias_table);
  Tensors wanted = ys;
  for (const Tensor& dx : gradients(ys, xs, dys)) wanted.push_back(dx);
  return evaluate(graph, wanted, build.feeds);
}

void expect_same(const std::vector<Values>& actual, const std::vector<Values>& expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i)
    expect_close(fmt::format("tensor {} of results and gradients", i), actual[i], expected[i], tolerance);
}

/// Checks float32 and float64 results against the composed form in float64.
void expect_composed(const Problem& problem) {
  const std::vector<Values> expected = values_and_gradients(problem, DType::kFloat64, false);
  {
    SCOPED_TRACE("float64");
    expect_same(values_and_gradients(problem, DType::kFloat64, true), expected, 1e-10);
  }
  SCOPED_TRACE("float32");
  expect_same(values_and_gradients(problem, DType::kFloat32, true), expected, 1e-5);
}

TEST(Attention, EqualsTheComposedFormForAnySizes) {
  for (const auto& [l, m, d] : std::vector<std::array<int64_t, 3>>{
           {1, 1, 1}, {3, 5, 7}, {4, 33, 16}, {17, 31, 5}, {70, 130, 40}, {15, 64, 64}, {130, 17, 8}}) {
    SCOPED_TRACE(std::to_string(l) + "x" + std::to_string(m) + "x" + std::to_string(d));
    expect_composed({[l = l, m = m, d = d](CaseBuilder& c) { return multi_head(c, 2, 3, l, m, d); }});
  }
}

TEST(Attention, TheLogSumHasAGradientLikeTheComposedForm) {
  for (const auto& [l, m, d] : std::vector<std::array<int64_t, 3>>{{1, 1, 1}, {17, 31, 5}, {70, 130, 40}}) {
    SCOPED_TRACE(fmt::format("{}x{}x{}", l, m, d));
    const auto inputs = [l = l, m = m, d = d](CaseBuilder& c) {
      AttentionInputs in = multi_head(c, 2, 3, l, m, d);
      in.bias_table = c.input("table", {heads(3), buckets(8)});
      return in;
    };
    expect_composed({inputs, {.max_distance = 8}, true});
    expect_composed({inputs, {.causal = true, .extra_logit = 0.5, .max_distance = 8}, true});
  }
}

TEST(Attention, CapsLogitsBeforeTheirMasks) {
  // With one entry for a head and queries of 1, the keys are the logits.
  Graph graph;
  CaseBuilder build(graph, DType::kFloat64);
  AttentionInputs in = multi_head(build, 1, 1, 3, 3, 1);
  in.q = build.values("ones", {batch(1), length(3), heads(1), d_kv(1)}, DType::kFloat64, {1, 1, 1});
  const Tensor capped = attention(in, {.causal = true, .soft_cap = 0.8});
  in.k = scalar_multiply(tanh(scalar_multiply(in.k, 1 / 0.8)), 0.8);
  const std::vector<Values> results = evaluate(graph, {capped, attention(in, {.causal = true})}, build.feeds);
  expect_close("capped", results[0], results[1], 1e-12);
}

TEST(Attention, EqualsTheComposedFormUnderASoftCap) {
  for (const auto& [l, m, d] : std::vector<std::array<int64_t, 3>>{
           {1, 1, 1}, {2, 40, 20}, {17, 31, 5}, {70, 130, 40}, {15, 64, 64}}) {
    SCOPED_TRACE(fmt::format("{}x{}x{}", l, m, d));
    const auto inputs = [l = l, m = m, d = d](CaseBuilder& c) { return multi_head(c, 2, 3, l, m, d); };
    expect_composed({inputs, {.soft_cap = 0.8}});
    const auto with_bias_and_noise = [&](CaseBuilder& c) {
      AttentionInputs in = inputs(c);
      in.bias_table = c.input("table", {heads(3), buckets(8)}, -2, 2);
      in.noise = c.input("noise", {batch(2), heads(3), memory(m)}, 0, 2);
      return in;
    };
    expect_composed({with_bias_and_noise, {.causal = true, .soft_cap = 0.3, .max_distance = 8}, true});
    expect_composed({with_bias_and_noise, {.extra_logit = 0.5, .soft_cap = 20, .max_distance = 8}, true});
  }
}

TEST(Attention, SeesNoLaterEntriesWhenCausal) {
  for (int64_t n : {1, 9, 33, 150}) {
    expect_composed({[n](CaseBuilder& c) { return multi_head(c, 1, 2, n, n, 8); }, {.causal = true}});
    expect_composed({[n](CaseBuilder& c) { return multi_head(c, 1, 2, n, n, 8); }, {.max_relative = 0}});
  }
}

TEST(Attention, SeesItsSegmentOnly) {
  const auto inputs = [](CaseBuilder& c) {
    AttentionInputs in = multi_head(c, 3, 2, 40, 40, 8);
    in.query_segment = c.values("s", {batch(3), length(40)}, DType::kInt32, packed_segments(3, 40, 11, 5));
    in.memory_segment =
        c.values("t", {memory(40), batch(3)}, DType::kInt32, [] {  // transposed, because any order is valid
          Values ids;
          const Values rows = packed_segments(3, 40, 11, 5);
          for (size_t i = 0; i < 40; ++i) {
            for (size_t b = 0; b < 3; ++b) ids.push_back(rows[b * 40 + i]);
          }
          return ids;
        }());
    return in;
  };
  expect_composed({inputs});
  expect_composed({inputs, {.causal = true}});
}

TEST(Attention, SeesScatteredEntries) {
  expect_composed({[](CaseBuilder& c) {
                     AttentionInputs in = multi_head(c, 2, 2, 30, 70, 8);
                     Values query(60), memory_ids(140);
                     for (size_t i = 0; i < query.size(); ++i) query[i] = static_cast<double>(i % 3);
                     for (size_t i = 0; i < memory_ids.size(); ++i)
                       memory_ids[i] = static_cast<double>(i * 7 % 10 % 3);
                     in.query_segment = c.values("s", {batch(2), length(30)}, DType::kInt32, query);
                     in.memory_segment = c.values("t", {batch(2), memory(70)}, DType::kInt32, memory_ids);
                     in.noise = c.input("noise", {batch(2), heads(2), memory(70)}, 0, 2);
                     return in;
                   },
                   {.extra_logit = 1.0}});
}

TEST(Attention, SeesEntriesOfLowerPriority) {
  const auto ids = [](CaseBuilder& c, AttentionInputs in) {
    in.query_priority = c.ids("query", {batch(2), length(20)}, 3, 9);
    in.memory_priority = c.ids("memory", {batch(2), memory(25)}, 0, 9);
    return in;
  };
  expect_composed({[&](CaseBuilder& c) { return ids(c, multi_head(c, 2, 2, 20, 25, 8)); }});
  expect_composed({[&](CaseBuilder& c) {
    AttentionInputs in = ids(c, multi_head(c, 2, 2, 20, 25, 8));
    in.memory_priority = {};
    return in;
  }});
  expect_composed({[&](CaseBuilder& c) {
    AttentionInputs in = ids(c, multi_head(c, 2, 2, 20, 25, 8));
    in.query_priority = {};
    in.memory_priority = c.ids("own", {batch(2), memory(25)}, -25, 1);
    return in;
  }});
}

TEST(Attention, SeesAWindow) {
  for (const bool with_positions : {false, true}) {
    expect_composed({[&](CaseBuilder& c) {
                       AttentionInputs in = multi_head(c, 2, 2, 60, 60, 8);
                       if (with_positions) {
                         Values positions(60);
                         for (size_t i = 0; i < 60; ++i) positions[i] = static_cast<double>(i % 23);
                         in.query_position = c.values("p", {length(60)}, DType::kInt32, positions);
                         in.memory_position = c.values("m", {memory(60)}, DType::kInt32, positions);
                       }
                       return in;
                     },
                     {.min_relative = -6, .max_relative = 2}});
  }
}

TEST(Attention, AddsABiasByRelativePosition) {
  for (const bool bidirectional : {false, true}) {
    for (const bool with_positions : {false, true}) {
      expect_composed({[&](CaseBuilder& c) {
                         AttentionInputs in = multi_head(c, 2, 3, 50, 61, 8);
                         if (with_positions) {
                           in.query_position = c.ids("p", {batch(2), length(50)}, 0, 40);
                           in.memory_position = c.ids("m", {batch(2), memory(61)}, 0, 40);
                         }
                         in.bias_table = c.input("table", {heads(3), {"buckets", 16}}, -2, 2);
                         return in;
                       },
                       {.bidirectional = bidirectional, .max_distance = 20}});
    }
  }
}

TEST(Attention, SharesKeysAmongHeads) {
  for (const auto& [l, causal] : std::vector<std::pair<int64_t, bool>>{{2, false}, {30, true}}) {
    expect_composed({[l = l](CaseBuilder& c) {
                       AttentionInputs in{.q = c.input("q", {batch(2), length(l), heads(5), d_kv(8)}),
                                          .k = c.input("k", {batch(2), memory(30), d_kv(8)}),
                                          .v = c.input("v", {batch(2), memory(30), d_kv(8)})};
                       in.bias_table = c.input("table", {heads(5), {"buckets", 16}});
                       in.noise = c.input("noise", {batch(2), heads(5), memory(30)}, 0, 2);
                       return in;
                     },
                     {.causal = causal}});
  }
}

TEST(Attention, GroupsQueryHeads) {
  const Dimension query_heads{"query_heads", 3};
  expect_composed({[&](CaseBuilder& c) {
    return AttentionInputs{.q = c.input("q", {batch(2), heads(2), query_heads, length(9), d_kv(8)}),
                           .k = c.input("k", {batch(2), heads(2), memory(12), d_kv(8)}),
                           .v = c.input("v", {batch(2), heads(2), memory(12), d_kv(8)})};
  }});
}

TEST(Attention, TakesOneTensorAsKeysAndValues) {
  expect_composed({[](CaseBuilder& c) {
    AttentionInputs in = multi_head(c, 2, 2, 10, 12, 8);
    in.v = in.k;
    return in;
  }});
}

TEST(Attention, TakesDimensionsInAnyOrder) {
  expect_composed({[](CaseBuilder& c) {
                     return AttentionInputs{
                         .q = c.input("q", {d_kv(8), heads(2), length(5), batch(2)}),
                         .k = c.input("k", {memory(6), d_kv(8), batch(2), heads(2)}),
                         .v = c.input("v", {heads(2), {"d_value", 12}, batch(2), memory(6)}),
                         .noise = c.input("noise", {memory(6), length(5), batch(2)}, 0, 2)};
                   },
                   {.value = "d_value"}});
}

TEST(Attention, AnswersOneQueryFromACache) {
  expect_composed({[](CaseBuilder& c) {
                     AttentionInputs in{.q = c.input("q", {batch(3), heads(2), d_kv(20)}),
                                        .k = c.input("k", {batch(3), heads(2), memory(40), d_kv(20)}),
                                        .v = c.input("v", {batch(3), heads(2), memory(40), d_kv(20)})};
                     in.query_priority = c.values("position", {batch(3)}, DType::kInt32, {0, 17, 39});
                     in.query_position = in.query_priority;
                     in.bias_table = c.input("table", {heads(2), {"buckets", 8}});
                     return in;
                   },
                   {.bidirectional = false, .max_distance = 16}});
}

TEST(Attention, ReadsNoEntriesBehindTheVisibleOnes) {
  Graph graph;
  CaseBuilder c(graph, DType::kFloat32);
  Values cache(40 * 4, 1.0);
  for (size_t i = 7 * 4; i < cache.size(); ++i) cache[i] = std::numeric_limits<double>::quiet_NaN();
  const Tensor kv = c.values("kv", {memory(40), d_kv(4)}, DType::kFloat32, cache);
  const Tensor position = c.values("position", {}, DType::kInt32, {6});
  for (const Shape& shape : {Shape{d_kv(4)}, Shape{length(5), d_kv(4)}}) {
    const Tensor q = c.input("q" + std::to_string(shape.rank()), shape);
    const Tensor y = attention({.q = q, .k = kv, .v = kv, .query_priority = position});
    EXPECT_EQ(evaluate(graph, {y}, c.feeds)[0], Values(static_cast<size_t>(shape.size()), 1.0));
  }
}

TEST(Attention, SumsAllValuesForAQueryThatSeesNothing) {
  const auto inputs = [](CaseBuilder& c) {
    AttentionInputs in = multi_head(c, 1, 2, 20, 24, 8);
    // Queries 0 to 4 see nothing; some of the entries are hidden from them by two masks.
    Values query(20, 1.0), ids(24, 1.0);
    std::fill(query.begin(), query.begin() + 5, 9.0);
    in.query_segment = c.values("s", {length(20)}, DType::kInt32, query);
    in.memory_segment = c.values("t", {memory(24)}, DType::kInt32, ids);
    in.bias_table = c.input("table", {heads(2), {"buckets", 8}});
    return in;
  };
  for (const bool causal : {false, true}) {
    for (const std::optional<double> soft_cap : {std::optional<double>(), std::optional(0.8)}) {
      const Problem problem{inputs, {.causal = causal, .soft_cap = soft_cap, .max_distance = 16}};
      const auto fused = values_and_gradients(problem, DType::kFloat32, true);
      expect_same(fused, values_and_gradients(problem, DType::kFloat32, false), 1e-5);
    }
  }
  Graph graph;
  CaseBuilder c(graph, DType::kFloat32);
  const Values y =
      evaluate(graph,
               {attention({.q = c.values("q", {length(2), d_kv(1)}, DType::kFloat32, {5, -3}),
                           .k = c.values("k", {memory(4), d_kv(1)}, DType::kFloat32, {1, 2, 3, 4}),
                           .v = c.values("v", {memory(4), d_kv(1)}, DType::kFloat32, {1, 2, 3, 6}),
                           .query_priority = c.values("p", {}, DType::kInt32, {-1})})},
               c.feeds)[0];
  EXPECT_EQ(y, (Values{12, 12}));
}

TEST(Attention, LetsTheExtraLogitTakeAllOfAQueryThatSeesNothing) {
  const Problem problem{[](CaseBuilder& c) {
                          AttentionInputs in = multi_head(c, 1, 1, 5, 6, 4);
                          in.query_priority = c.values("p", {length(5)}, DType::kInt32, {-1, 0, 1, 2, 9});
                          return in;
                        },
                        {.extra_logit = 0}};
  const auto fused = values_and_gradients(problem, DType::kFloat32, true);
  expect_same(fused, values_and_gradients(problem, DType::kFloat32, false), 1e-5);
  EXPECT_EQ(Values(fused[0].begin(), fused[0].begin() + 4), Values(4, 0.0));
}

TEST(Attention, RoundsBFloat16Once) {
  for (const std::optional<double> soft_cap : {std::optional<double>(), std::optional(0.8)}) {
    const Problem problem{[](CaseBuilder& c) {
                            AttentionInputs in = multi_head(c, 2, 2, 20, 35, 24);
                            in.bias_table = c.input("table", {heads(2), {"buckets", 8}});
                            in.noise = c.input("noise", {batch(2), memory(35)}, 0, 2);
                            return in;
                          },
                          {.causal = true, .soft_cap = soft_cap, .max_distance = 16}};
    // The composed form rounds at the same places.
    const auto expected = values_and_gradients(problem, DType::kBFloat16, false);
    expect_same(values_and_gradients(problem, DType::kBFloat16, true), expected, 1e-2);
  }
}

TEST(Attention, ShowsNaN) {
  Graph graph;
  CaseBuilder c(graph, DType::kFloat32);
  AttentionInputs in = multi_head(c, 1, 1, 6, 6, 4);
  c.feeds["k"][9] = std::nan("");  // an element of entry 2
  for (const AttentionOptions& options :
       {AttentionOptions{.causal = true}, AttentionOptions{.causal = true, .soft_cap = 2}}) {
    const Values y = evaluate(graph, {attention(in, options)}, c.feeds)[0];
    for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isnan(y[i]), i >= 8) << i;
  }
}

/// Builds a graph whose outputs are causal attention with bias and noise, and its gradients.
void build_outputs(Graph& graph, std::map<std::string, Values>& feeds, std::optional<double> soft_cap = {}) {
  CaseBuilder c(graph, DType::kFloat32);
  AttentionInputs in = multi_head(c, 4, 4, 50, 50, 24);
  in.bias_table = c.input("table", {heads(4), {"buckets", 8}});
  in.noise = c.input("noise", {batch(4), heads(4), memory(50)}, 0, 2);
  const Tensor y = attention(in, {.causal = true, .soft_cap = soft_cap, .max_distance = 16});
  graph.set_output("y", y);
  const Tensors d = gradients({y}, {in.q, in.k, in.v}, {c.input("dy", y.shape())});
  for (size_t i = 0; i < d.size(); ++i) graph.set_output("d" + std::to_string(i), d[i]);
  feeds = c.feeds;
}

TEST(Attention, HasTheSameBitsWhereverBatchAndHeadsAreSplit) {
  for (const std::optional<double> soft_cap : {std::optional<double>(), std::optional(0.8)}) {
    Graph graph;
    std::map<std::string, Values> feeds;
    build_outputs(graph, feeds, soft_cap);
    const MeshRun one = run_on_mesh(graph, Layouts::single(), feeds, {.threads = 1});
    for (const Layouts& layout :
         {Layouts::single(), layouts("x:4", "batch:x"), layouts("x:2;y:4", "batch:x;heads:y")})
      EXPECT_EQ(run_on_mesh(graph, layout, feeds, {.threads = 2}).outputs, one.outputs);
  }
}

TEST(Attention, FewQueriesHaveTheBitsOfMany) {
  for (const int64_t entries : {16, 17, 25, 40}) {
    for (const int64_t width : {16, 64}) {
      Graph graph;
      CaseBuilder c(graph, DType::kFloat32);
      const Tensor q = c.input("q", {length(8), d_kv(12)}), k = c.input("k", {memory(entries), d_kv(12)}),
                   v = c.input("v", {memory(entries), {"d_v", width}});
      const Values many =
          evaluate(graph, {attention({.q = q, .k = k, .v = v}, {.value = "d_v"})}, c.feeds)[0];
      for (const int64_t few : {1, 3}) {
        const Tensor some = slice(q, "length", 5, few);
        const Values result =
            evaluate(graph, {attention({.q = some, .k = k, .v = v}, {.value = "d_v"})}, c.feeds)[0];
        EXPECT_EQ(result, Values(many.begin() + 5 * width, many.begin() + (5 + few) * width))
            << entries << " entries, values of " << width;
      }
    }
  }
}

/// What attention gives copies whose memories begin alike, with the prefix that it is told of, or without. The first
/// `common` entries are the same for all copies, unless they are NaN in all copies but the first.
Values of_copies(const Shape& queries, int64_t entries, int64_t width, DType dtype, int64_t common,
                 bool is_told, bool has_nan = false) {
  Graph graph;
  CaseBuilder c(graph, dtype);
  const Shape memories{batch(2), {"copies", 3}, heads(2), memory(entries), d_kv(width)};
  const auto values = [&](const std::string& name) {
    const Tensor x = c.input(name, memories);
    Values& data = c.feeds.at(name);
    const int64_t copy = 2 * entries * width;
    for (int64_t i = 0; i < std::ssize(data); ++i) {
      if (i / copy % 3 == 0 || i / width % entries >= common) continue;
      data[static_cast<size_t>(i)] = has_nan ? std::numeric_limits<double>::quiet_NaN()
                                             : data[static_cast<size_t>(i - i / copy % 3 * copy)];
    }
    return x;
  };
  AttentionInputs in{.q = c.input("q", queries), .k = values("k"), .v = values("v")};
  in.query_priority = c.values("position", {batch(2)}, DType::kInt32, {static_cast<double>(entries - 1), 17});
  in.query_position = in.query_priority;
  in.bias_table = c.input("table", {heads(2), {"buckets", 8}});
  if (is_told)
    in.shared_prefix = c.values("shared", {batch(2)}, DType::kInt32, Values(2, static_cast<double>(common)));
  const Tensor y = attention(in, {.bidirectional = false, .max_distance = 16, .copies = "copies"});
  return evaluate(graph, {y}, c.feeds)[0];
}

TEST(Attention, ASharedPrefixDoesNotChangeBits) {
  const Dimension copies{"copies", 3};
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kBFloat16}) {
    for (const int64_t width : {12, 16, 32, 64, 128}) {
      for (const Shape& queries : {Shape{batch(2), copies, heads(2), d_kv(width)},
                                   Shape{d_kv(width), copies, {"query_heads", 3}, batch(2), heads(2)},
                                   Shape{batch(2), copies, length(3), heads(2), d_kv(width)},
                                   Shape{batch(2), copies, length(5), heads(2), d_kv(width)}}) {
        for (const int64_t common : {0, 15, 16, 18, 33, 50}) {
          EXPECT_EQ(of_copies(queries, 50, width, dtype, common, true),
                    of_copies(queries, 50, width, dtype, common, false))
              << name_of(dtype) << " " << queries.to_string() << " " << common;
        }
      }
    }
  }
}

TEST(Attention, ReadsASharedPrefixOnce) {
  if (!test_backend()->is_host()) GTEST_SKIP() << "a GPU reads the entries of each copy";
  const Shape queries{batch(2), {"copies", 3}, heads(2), d_kv(64)};
  const Values expected = of_copies(queries, 50, 64, DType::kFloat32, 16, false);
  EXPECT_EQ(of_copies(queries, 50, 64, DType::kFloat32, 16, true, true), expected);
}

TEST(Attention, CountsItsContractions) {
  Graph graph;
  std::map<std::string, Values> feeds;
  build_outputs(graph, feeds);
  const double contraction = 2.0 * 4 * 4 * 50 * 50 * 24;
  EXPECT_EQ(run_on_mesh(graph, Layouts::single(), feeds).counters.flops_per_position, 7 * contraction);
  EXPECT_EQ(run_on_mesh(graph, layouts("x:2", "length:x"), feeds).counters.flops_per_position,
            7 * contraction / 2);
}

TEST(ExponentialOfNonpositive, IsThatOfTheLibraryAndKeepsNaN) {
  for (int i = 0; i < 8690; ++i) {
    const float x = static_cast<float>(-i) / 100;
    const double expected = std::exp(static_cast<double>(x));
    EXPECT_NEAR(CpuMath::exp_of_nonpositive(x), expected, 1e-7 * (2 - x) * expected) << x;
  }
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(CpuMath::exp_of_nonpositive(0.0f), 1);
  for (float x : {-88.0f, -1e3f, -1e9f, -1e30f, -infinity}) EXPECT_EQ(CpuMath::exp_of_nonpositive(x), 0) << x;
  EXPECT_TRUE(std::isnan(CpuMath::exp_of_nonpositive(std::nanf(""))));
  EXPECT_TRUE(std::isnan(CpuMath::exp_of_nonpositive(-std::nanf(""))));
}

TEST(RelativeBuckets, AreThoseOfT5) {
  // Where each bucket begins, recorded from the original implementation.
  const RelativeBuckets both{};
  const std::vector<std::pair<int64_t, int64_t>> bidirectional{
      {-1000, 15}, {-91, 15}, {-90, 14}, {-64, 14}, {-63, 13}, {-46, 13}, {-45, 12}, {-32, 12},
      {-31, 11},   {-23, 11}, {-22, 10}, {-16, 10}, {-15, 9},  {-12, 9},  {-11, 8},  {-8, 8},
      {-7, 7},     {-1, 1},   {0, 0},    {1, 17},   {7, 23},   {8, 24},   {11, 24},  {12, 25},
      {15, 25},    {16, 26},  {22, 26},  {23, 27},  {31, 27},  {32, 28},  {45, 28},  {46, 29},
      {63, 29},    {64, 30},  {90, 30},  {91, 31},  {128, 31}, {5000, 31}};
  for (const auto& [relative, bucket] : bidirectional) EXPECT_EQ(both(relative), bucket) << relative;
  const RelativeBuckets past{.bidirectional = false};
  const std::vector<std::pair<int64_t, int64_t>> unidirectional{
      {100, 0},  {0, 0},     {-1, 1},    {-15, 15},  {-16, 16},  {-18, 16}, {-19, 17}, {-20, 17},
      {-21, 18}, {-23, 18},  {-24, 19},  {-26, 19},  {-27, 20},  {-30, 20}, {-31, 21}, {-34, 21},
      {-35, 22}, {-39, 22},  {-40, 23},  {-45, 23},  {-46, 24},  {-51, 24}, {-52, 25}, {-58, 25},
      {-59, 26}, {-66, 26},  {-67, 27},  {-76, 27},  {-77, 28},  {-86, 28}, {-87, 29}, {-98, 29},
      {-99, 30}, {-112, 30}, {-113, 31}, {-128, 31}, {-9999, 31}};
  for (const auto& [relative, bucket] : unidirectional) EXPECT_EQ(past(relative), bucket) << relative;
  Graph graph;
  const Tensor relative = graph.input("relative", {{"n", 4}}, DType::kInt32);
  EXPECT_EQ(evaluate(graph, {relative_bucket(relative, both)}, {{"relative", {-1000, -9, 9, 1000}}})[0],
            (Values{15, 8, 24, 31}));
}

TEST(Attention, ReportsOperandsThatDoNotFit) {
  Graph graph;
  const auto x = [&](const Shape& shape, DType dtype = DType::kFloat32) {
    static int count = 0;
    return graph.input("x" + std::to_string(count++), shape, dtype);
  };
  const AttentionInputs good{.q = x({batch(2), length(3), d_kv(4)}),
                             .k = x({batch(2), memory(5), d_kv(4)}),
                             .v = x({batch(2), memory(5), d_kv(4)})};
  EXPECT_NO_THROW(attention(good));
  const auto expect_error = [&](const std::function<void(AttentionInputs&)>& spoil) {
    AttentionInputs in = good;
    spoil(in);
    EXPECT_THROW(attention(in), Error);
    EXPECT_THROW(composed_attention(in), Error);
  };
  expect_error([&](AttentionInputs& in) { in.q = x({batch(2), length(3), d_kv(5)}); });
  expect_error([&](AttentionInputs& in) { in.q = x({batch(2), length(3), d_kv(4)}, DType::kBFloat16); });
  expect_error([&](AttentionInputs& in) { in.k = x({batch(2), heads(2), memory(5), d_kv(4)}); });
  expect_error([&](AttentionInputs& in) { in.v = x({memory(5), d_kv(4)}); });
  expect_error([&](AttentionInputs& in) { in.v = x({batch(2), memory(6), d_kv(4)}); });
  expect_error([&](AttentionInputs& in) { in.query_segment = x({batch(2), length(3)}, DType::kInt32); });
  expect_error([&](AttentionInputs& in) { in.query_priority = x({batch(2), length(3)}); });
  expect_error([&](AttentionInputs& in) { in.memory_priority = x({batch(2)}, DType::kInt32); });
  expect_error([&](AttentionInputs& in) { in.noise = x({batch(2)}); });
  expect_error([&](AttentionInputs& in) { in.bias_table = x({heads(2), {"buckets", 32}}); });
  expect_error([&](AttentionInputs& in) { in.bias_table = x({{"buckets", 3}}); });
  expect_error(
      [&](AttentionInputs& in) { in.shared_prefix = x({batch(2)}, DType::kInt32); });  // there are no copies
  for (const double soft_cap : {0.0, -1.0}) EXPECT_THROW(attention(good, {.soft_cap = soft_cap}), Error);
}

}  // namespace
}  // namespace mtf::testing
