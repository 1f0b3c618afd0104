// Tests attention of a sequence to itself: if its length is split, blocks exchange what the band reaches, and
// the results are those of one position.
#include "engine/ops/sequence_blocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "engine/base/error.h"
#include "engine/graph/gradients.h"
#include "engine/spmd/program_facts.h"
#include "tests/support/golden.h"
#include "tests/support/run_on_mesh.h"

namespace mtf::testing {
namespace {

const Dimension kBatch{"batch", 2}, kLength{"length", 48}, kHeads{"heads", 2}, kKey{"d_kv", 4};

/// A sequence that attends to itself. By default, keys and values have all dimensions of the queries.
struct BlockProblem {
  std::string name;
  AttentionOptions options;
  Shape memory = {kBatch, kLength, kHeads, kKey};
  bool shared_values = false;
  std::function<void(CaseBuilder&, AttentionInputs&)> add = [](CaseBuilder&, AttentionInputs&) {};
  Shape queries = {kBatch, kLength, kHeads, kKey};
};
std::ostream& operator<<(std::ostream& out, const BlockProblem& problem) { return out << problem.name; }

/// A graph whose outputs are the result and the gradients of q, k, v and the table.
struct Built {
  explicit Built(const BlockProblem& problem, bool fused = true, DType dtype = DType::kFloat32) {
    CaseBuilder c(graph, dtype);
    AttentionInputs in{
        .q = c.input("q", problem.queries, -2, 2), .k = c.input("k", problem.memory, -2, 2), .v = {}};
    in.v = problem.shared_values ? in.k : c.input("v", problem.memory);
    problem.add(c, in);
    AttentionOptions options = problem.options;
    options.memory_length = options.query_length;
    const Tensor y = fused ? attention(in, options) : composed_attention(in, options).result;
    graph.set_output("y", y);
    std::vector<std::pair<std::string, Tensor>> xs{{"dq", in.q}, {"dk", in.k}};
    if (!problem.shared_values) xs.emplace_back("dv", in.v);
    if (in.bias_table) xs.emplace_back("dtable", in.bias_table);
    Tensors inputs;
    for (const auto& [name, x] : xs) inputs.push_back(x);
    const Tensors d = gradients({y}, inputs, {c.input("dy", y.shape())});
    for (size_t i = 0; i < d.size(); ++i) graph.set_output(xs[i].first, d[i]);
    feeds = c.feeds;
  }

  Graph graph;
  std::map<std::string, Values> feeds;
};

/// Sets segments of 11 entries each; the last 5 entries of a row are padding.
void pack(CaseBuilder& c, AttentionInputs& in) {
  Values ids;
  for (int64_t row = 0; row < kBatch.size; ++row) {
    for (int64_t i = 0; i < kLength.size; ++i)
      ids.push_back(i < kLength.size - 5 ? static_cast<double>(1 + (i + 3 * row) / 11) : 0.0);
  }
  in.query_segment = in.memory_segment = c.values("segment", {kBatch, kLength}, DType::kInt32, ids);
}

/// Sets the priorities of rows whose first part sees all of itself.
void set_priorities(CaseBuilder& c, AttentionInputs& in) {
  Values priority;
  for (int64_t row = 0; row < kBatch.size; ++row) {
    for (int64_t i = 0; i < kLength.size; ++i)
      priority.push_back(i < 17 + 10 * row ? 0.0 : static_cast<double>(i));
  }
  in.query_priority = in.memory_priority = c.values("priority", {kBatch, kLength}, DType::kInt32, priority);
}

void add_noise(CaseBuilder& c, AttentionInputs& in) {
  in.noise = c.input("noise", {kBatch, kHeads, kLength}, 0, 2);
}

std::vector<BlockProblem> problems() {
  std::vector<BlockProblem> all{
      {"causal", {.causal = true, .min_relative = -4}},
      {"both_sides", {.min_relative = -3, .max_relative = 4}},
      {"itself_only", {.min_relative = 0, .max_relative = 0}},
      {"past_only", {.min_relative = -5, .max_relative = 0}},
      {"wider_than_a_block", {.causal = true, .min_relative = -15}},
      {"wider_than_blocks_on_both_sides", {.min_relative = -8, .max_relative = 9}},
      {"as_wide_as_the_length", {.causal = true, .min_relative = -47}},
      {"wider_than_the_length", {.min_relative = -100, .max_relative = 100}},
      {"no_band", {.causal = true}},
      {"extra_logit", {.causal = true, .min_relative = -4, .extra_logit = 0.5}},
      {"multi_query", {.causal = true, .min_relative = -4}, {kBatch, kLength, kKey}},
      {"multi_query_shared", {.min_relative = -4, .max_relative = 5}, {kBatch, kLength, kKey}, true},
      {"shared_values", {.causal = true, .min_relative = -9}, {kBatch, kHeads, kLength, kKey}, true},
  };
  all.push_back({.name = "packed", .options = {.causal = true, .min_relative = -6}, .add = pack});
  all.push_back({.name = "packed_noisy",
                 .options = {.min_relative = -6, .max_relative = 7},
                 .add = [](CaseBuilder& c, AttentionInputs& in) {
                   pack(c, in);
                   add_noise(c, in);
                 }});
  all.push_back({.name = "noise", .options = {.causal = true, .min_relative = -6}, .add = add_noise});
  all.push_back(
      {.name = "priorities", .options = {.min_relative = -6, .max_relative = 7}, .add = set_priorities});
  all.push_back({.name = "priorities_of_the_memory_only",
                 .options = {.min_relative = -6, .max_relative = 7},
                 .add = [](CaseBuilder& c, AttentionInputs& in) {
                   set_priorities(c, in);
                   in.query_priority = {};
                 }});
  all.push_back({.name = "positions",
                 .options = {.min_relative = -6, .max_relative = 2},
                 .add = [](CaseBuilder& c, AttentionInputs& in) {
                   Values position;
                   for (int64_t i = 0; i < kLength.size; ++i) position.push_back(static_cast<double>(i % 29));
                   in.query_position = in.memory_position =
                       c.values("position", {kLength}, DType::kInt32, position);
                 }});
  all.push_back({.name = "bias",
                 .options = {.causal = true, .min_relative = -6},
                 .add = [](CaseBuilder& c, AttentionInputs& in) {
                   in.bias_table = c.input("table", {kHeads, {"buckets", 8}});
                 }});
  all.push_back({.name = "multi_tensor",
                 .options = {.causal = true, .min_relative = -6},
                 .queries = {kHeads, {"query_heads", 3}, kLength, kKey, kBatch}});
  return all;
}

class SequenceAttention : public ::testing::TestWithParam<BlockProblem> {};
INSTANTIATE_TEST_SUITE_P(Problems, SequenceAttention, ::testing::ValuesIn(problems()),
                         [](const auto& info) { return info.param.name; });

TEST_P(SequenceAttention, IsThatToAMemoryOfItsOwnName) {
  const Built fused(GetParam()), composed(GetParam(), false, DType::kFloat64);
  const MeshRun actual = run_on_mesh(fused.graph, Layouts::single(), fused.feeds);
  const MeshRun expected = run_on_mesh(composed.graph, Layouts::single(), composed.feeds);
  for (const auto& [name, values] : expected.outputs)
    expect_close(name, actual.outputs.at(name), values, 1e-5);
}

TEST_P(SequenceAttention, IsTheSameWhereverTheLengthIsSplit) {
  const Built built(GetParam());
  const MeshRun one = run_on_mesh(built.graph, Layouts::single(), built.feeds);
  for (const auto& [mesh, layout] :
       std::vector<std::pair<std::string, std::string>>{{"x:2", "length:x"},
                                                        {"x:2;y:2", "batch:x;length:y"},
                                                        {"x:2;y:2", "heads:x;length:y"},
                                                        {"x:2;y:2", "d_kv:x;length:y"},
                                                        {"x:2;y:2", "length:x;query_block:y;memory_block:y"},
                                                        {"x:2", "d_kv:x"},
                                                        {"x:8", "length:x"}}) {
    SCOPED_TRACE(layout + " on " + mesh);
    const MeshRun run = run_on_mesh(built.graph, layouts(mesh, layout), built.feeds);
    // With one key for each query the gradients of queries and keys consist of rounding errors only.
    for (const auto& [name, values] : one.outputs) expect_close(name, run.outputs.at(name), values, 1e-5);
  }
}

TEST(SequenceAttention, IsTheSameWhereSeveralMeshDimensionsSplitTheLength) {
  const BlockProblem problem{.name = "", .options = {.min_relative = -6, .max_relative = 7}, .add = pack};
  const Built built(problem);
  const MeshRun one = run_on_mesh(built.graph, Layouts::single(), built.feeds);
  for (const char* mesh : {"x:2;y:4", "x:1;y:2", "x:1;y:1"}) {
    const Layouts layout =
        Layouts::make(Mesh(Shape::parse(mesh)), LayoutRules({LayoutRule{"length", {"y", "x"}, {}}}));
    const MeshRun run = run_on_mesh(built.graph, layout, built.feeds);
    for (const auto& [name, values] : one.outputs)
      EXPECT_LE(relative_difference(run.outputs.at(name), values), 1e-5) << name << " on " << mesh;
  }
}

TEST(SequenceAttention, TakesBFloat16) {
  const BlockProblem problem{"", {.causal = true, .min_relative = -9}};
  const Built built(problem, true, DType::kBFloat16);
  const MeshRun one = run_on_mesh(built.graph, Layouts::single(), built.feeds);
  const MeshRun split = run_on_mesh(built.graph, layouts("x:8", "length:x"), built.feeds);
  for (const auto& [name, values] : one.outputs)
    EXPECT_LE(relative_difference(split.outputs.at(name), values), 1e-2) << name;
}

/// Returns the bytes that a position sends, and whether it gathers.
std::pair<double, bool> traffic(int64_t length, int64_t radius, bool causal, int64_t positions) {
  BlockProblem problem{"", {.min_relative = 1 - radius}};
  problem.options.causal = causal;
  if (!causal) problem.options.max_relative = radius;
  problem.queries = problem.memory = {kBatch, {"length", length}, kHeads, kKey};
  const Built built(problem);
  const ProgramFacts facts =
      program_facts(partition(built.graph, layouts("x:" + std::to_string(positions), "length:x")));
  bool gathers = false;
  for (const CollectiveFact& collective : facts.collectives) gathers |= collective.kind != "exchange";
  return {facts.bytes_sent, gathers};
}

TEST(SequenceAttention, SendsWhatTheBandReaches) {
  // k and v forward, and their gradients back; the last position has no neighbour. Margins of more than a quarter of a
  // block are exchanged again in the backward pass.
  const double entry = 2.0 * kBatch.size * kHeads.size * kKey.size * sizeof(float);
  for (const int64_t length : {256, 1024, 4096}) {
    for (const int64_t radius : {8, 9, 16}) {
      const auto sent = [&](int64_t margin) {
        const double times = 4 * margin > length / 8 ? 3 : 2;
        return times * entry * static_cast<double>(margin) * 7 / 8;
      };
      EXPECT_EQ(traffic(length, radius, true, 8), std::pair(sent(radius - 1), false)) << length;
      EXPECT_EQ(traffic(length, radius, false, 8), std::pair(2 * sent(radius), false)) << length;
    }
  }
  // Blocks of 32: what reaches beyond the next block is sent by the one after it.
  EXPECT_FALSE(traffic(256, 100, true, 8).second);
  // This would send no less than a gather.
  EXPECT_TRUE(traffic(256, 300, true, 8).second);
  EXPECT_TRUE(traffic(256, 120, false, 2).second);
}

TEST(SequenceAttention, OfASplitLengthThatIsNotDivisibleIsRefused) {
  BlockProblem problem{"", {.causal = true, .min_relative = -3}};
  problem.queries = problem.memory = {kBatch, {"length", 50}, kHeads, kKey};
  const Built built(problem);
  Diagnostics diagnostics;
  check_layouts(built.graph, layouts("x:4", "length:x"), diagnostics);
  ASSERT_TRUE(diagnostics.has_errors());
  EXPECT_THAT(diagnostics.errors()[0].to_string(), ::testing::HasSubstr("length"));
}

}  // namespace
}  // namespace mtf::testing
