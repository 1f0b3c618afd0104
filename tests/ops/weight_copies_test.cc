#include "engine/ops/weight_copies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "engine/ops/einsum.h"
#include "engine/ops/indexing.h"
#include "engine/ops/reshape.h"
#include "tests/support/run_on_mesh.h"
#include "tests/support/test_backend.h"

namespace mtf::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const Dimension kCopiedBatch{"batch", 6}, kCopiedVector{"d_model", 32}, kCopiedHidden{"hidden", 64},
    kCopiedIds{"vocab", 48};

/// n numbers that are spread evenly over [-1, 1).
Values spread(int64_t n, uint32_t seed) {
  Values values;
  for (int64_t i = 0; i < n; ++i) {
    seed = seed * 1664525u + 1013904223u;
    values.push_back(static_cast<float>(seed >> 8) * 0x1p-23f - 1);
  }
  return values;
}

const std::map<std::string, Values>& weights() {
  static const std::map<std::string, Values> weights{
      {"wi", spread(32 * 64, 7)}, {"wo", spread(64 * 32, 13)}, {"table", spread(48 * 32, 9)}};
  return weights;
}

const Variable& weight(Graph& graph, const std::string& name, const Shape& shape) {
  return graph.variable(name, shape, DType::kFloat32, Initializer::zeros());
}

/// Two layers on vectors that are looked up in a table, which makes the logits, too.
std::unique_ptr<Graph> copied_graph(const std::optional<WeightCopyOptions>& options) {
  auto graph = std::make_unique<Graph>();
  use_weight_copies(*graph, options);
  const Tensor ids = graph->input("ids", {kCopiedBatch}, DType::kInt32);
  const Tensor table = graph->read(weight(*graph, "table", {kCopiedIds, kCopiedVector})),
               wi = graph->read(weight(*graph, "wi", {kCopiedVector, kCopiedHidden})),
               wo = graph->read(weight(*graph, "wo", {kCopiedHidden, kCopiedVector}));
  const Tensor x = gather(table, ids, "vocab");
  const Tensor h = einsum({x, wi}, {kCopiedBatch, kCopiedHidden}),
               y = einsum({wo, h}, {kCopiedBatch, kCopiedVector});
  graph->set_output("y", y);
  graph->set_output("logits", einsum({y, table}, {kCopiedIds, kCopiedBatch}));
  return graph;
}

/// The outputs of the graph with copies that its conversions make.
std::map<std::string, Values> run_copied(const Graph& graph, const Layouts& layouts) {
  std::map<std::string, Values> variables = weights();
  const WeightCopies& products = *graph.weight_copies();
  for (int64_t i = 0; i < products.size(); ++i) {
    const std::unique_ptr<Graph> conversion = products.conversion(i, i + 1);
    MeshRunOptions options;
    for (const auto& variable : conversion->variables()) {
      if (variable->kind == Variable::Kind::kWeight)
        options.variables[variable->name] = weights().at(variable->name);
    }
    for (const auto& [name, values] : run_on_mesh(*conversion, layouts, {}, options).variables)
      variables[name] = values;
  }
  MeshRunOptions options;
  for (const ProgramVariable& v : partition(graph, layouts).variables)
    options.variables[v.variable.name] = variables.at(v.variable.name);
  return run_on_mesh(graph, layouts, {{"ids", {3, 0, 47, 21, 8, 3}}}, options).outputs;
}

std::map<std::string, Values> run_wide() {
  return run_on_mesh(*copied_graph({}), Layouts::single(), {{"ids", {3, 0, 47, 21, 8, 3}}},
                     {.variables = weights()})
      .outputs;
}

double deviation(const Values& values) {
  double squares = 0;
  for (const double x : values) squares += x * x;
  return std::sqrt(squares / static_cast<double>(values.size()));
}

struct CopyCase {
  DType type;
  bool in_strips = false;
  WeightCopyOptions options() const { return {.type = type, .in_strips = in_strips}; }
};

class CopiedWeight : public ::testing::TestWithParam<CopyCase> {
 protected:
  void SetUp() override {
    const bool for_processors = GetParam().type == DType::kInt8 || GetParam().in_strips;
    if (for_processors && !test_backend()->is_host()) GTEST_SKIP() << "these copies are for processors";
  }
};
INSTANTIATE_TEST_SUITE_P(Types, CopiedWeight,
                         ::testing::Values(CopyCase{DType::kFloat32, true}, CopyCase{DType::kBFloat16, true},
                                           CopyCase{DType::kBFloat16}, CopyCase{DType::kInt8}),
                         [](const auto& info) {
                           return std::string(name_of(info.param.type)) +
                                  (info.param.in_strips ? "Strips" : "");
                         });

TEST_P(CopiedWeight, IsNearlyThatOfTheWeights) {
  const std::map<std::string, Values> wide = run_wide(),
                                      copied =
                                          run_copied(*copied_graph(GetParam().options()), Layouts::single());
  for (const auto& [name, values] : wide) {
    if (GetParam().type == DType::kFloat32) {
      EXPECT_EQ(copied.at(name), values) << name;
      continue;
    }
    Values errors;
    for (size_t i = 0; i < values.size(); ++i) errors.push_back(copied.at(name)[i] - values[i]);
    EXPECT_LT(deviation(errors), 0.03 * deviation(values)) << name;
    EXPECT_NE(copied.at(name), values);
  }
}

TEST_P(CopiedWeight, StoresOnlyWhatIsRead) {
  const auto graph = copied_graph(GetParam().options());
  std::map<std::string, DType> stored;
  for (const ProgramVariable& v : partition(*graph, Layouts::single()).variables)
    stored[v.variable.name] = v.variable.dtype;
  if (GetParam().type == DType::kInt8) {
    EXPECT_EQ(stored, (std::map<std::string, DType>{{"table", DType::kFloat32},
                                                    {"wi/int8_d_model", DType::kUInt8},
                                                    {"wi/int8_d_model/scale", DType::kFloat32},
                                                    {"wo/int8_hidden", DType::kUInt8},
                                                    {"wo/int8_hidden/scale", DType::kFloat32},
                                                    {"table/int8_d_model", DType::kUInt8},
                                                    {"table/int8_d_model/scale", DType::kFloat32}}));
  } else {
    const std::string copy = "/" + std::string(name_of(GetParam().type));
    std::map<std::string, DType> expected{{"table", DType::kFloat32}};
    for (const char* name : {"wi", "wo", "table"}) expected[name + copy] = GetParam().type;
    // The logits that are read in the order [vocab, batch] are made of the table itself.
    if (GetParam().type == DType::kFloat32) expected.erase("table" + copy);
    EXPECT_EQ(stored, expected);
  }
}

TEST_P(CopiedWeight, NoLayoutChangesIt) {
  const auto whole = run_copied(*copied_graph(GetParam().options()), Layouts::single());
  for (const auto& [mesh, layout, parameters] : {std::array{"x:2", "batch:x", ""},
                                                 {"x:2", "hidden:x", ""},
                                                 {"x:2;y:2", "batch:x;hidden:y;vocab:y", ""},
                                                 {"x:2", "d_model:x", ""},
                                                 {"x:4", "hidden:x", ""},
                                                 {"x:2", "batch:x", "d_model:x"},
                                                 {"x:4", "", "hidden:x;vocab:x"}}) {
    SCOPED_TRACE(layout);
    const Layouts split = layouts(mesh, layout, parameters);
    const auto parts = [&split](const std::string& name) {
      return std::max(LayoutMap(split.mesh, split.activation).parts(name),
                      LayoutMap(split.mesh, split.parameter).parts(name));
    };
    WeightCopyOptions options = GetParam().options();
    options.parts = parts;
    const auto outputs = run_copied(*copied_graph(options), split);
    for (const auto& [name, values] : whole) {
      if (GetParam().type == DType::kInt8) {
        EXPECT_EQ(outputs.at(name), values) << name;
      } else {
        EXPECT_LE(relative_difference(outputs.at(name), values), 1e-2) << name;
      }
    }
  }
}

TEST(WeightCopies, ShareTheCodesOfWhatSeveralMultiply) {
  Graph graph;
  use_weight_copies(graph, WeightCopyOptions{});
  const Tensor x = graph.input("x", {kCopiedBatch, kCopiedVector});
  for (const char* name : {"q", "k"})
    graph.set_output(name, einsum({x, graph.read(weight(graph, name, {kCopiedVector, kCopiedHidden}))},
                                  {kCopiedBatch, kCopiedHidden}));
  const std::string text = partition(graph, Layouts::single()).to_string();
  EXPECT_EQ(text.find("quantize_rows"), text.rfind("quantize_rows")) << text;
  EXPECT_EQ(graph.weight_copies()->size(), 2);
}

TEST(WeightCopies, KnowViewsOfWeights) {
  if (!test_backend()->is_host()) GTEST_SKIP() << "products of codes are for processors";
  Graph graph;
  use_weight_copies(graph, WeightCopyOptions{});
  const Dimension heads{"heads", 4}, key{"d_kv", 16};
  const Tensor w = graph.read(weight(graph, "w", {kCopiedVector, kCopiedHidden}));
  const Tensor apart = replace_dimensions(w, {kCopiedHidden}, {heads, key}),
               x = graph.input("x", {kCopiedBatch, kCopiedVector});
  graph.set_output("apart", einsum({x, apart}, {kCopiedBatch, heads, key}));
  graph.set_output("whole", einsum({x, w}, {kCopiedBatch, kCopiedHidden}));
  const Program program = partition(graph, Layouts::single());
  EXPECT_THAT(program.to_string(), Not(HasSubstr("einsum")));
  EXPECT_EQ(graph.weight_copies()->size(), 2);  // columns of other dimensions are another copy
  const Values values = spread(32 * 64, 7), rows = spread(6 * 32, 3);
  MeshRunOptions options{.variables = {{"w", values}}};
  options.variables =
      run_on_mesh(*graph.weight_copies()->conversion(0, 2), Layouts::single(), {}, options).variables;
  options.variables.erase("w");
  const auto outputs = run_on_mesh(graph, Layouts::single(), {{"x", rows}}, options).outputs;
  EXPECT_EQ(outputs.at("apart"), outputs.at("whole"));
}

TEST(WeightCopies, ReadTablesInStrips) {
  if (!test_backend()->is_host()) GTEST_SKIP() << "strips are for processors";
  const auto logits = [](const std::optional<WeightCopyOptions>& options, MeshRunOptions run) {
    Graph graph;
    use_weight_copies(graph, options);
    const Tensor x = graph.input("x", {kCopiedBatch, kCopiedVector}),
                 table = graph.read(weight(graph, "table", {{"vocab", 96}, kCopiedVector}));
    graph.set_output("y", einsum({x, table}, {kCopiedBatch, {"vocab", 96}}));
    if (options) {
      EXPECT_EQ(graph.weight_copies()->size(), 1);
      run.variables =
          run_on_mesh(*graph.weight_copies()->conversion(0, 1), Layouts::single(), {}, run).variables;
      run.variables.erase("table");
    }
    return run_on_mesh(graph, Layouts::single(), {{"x", spread(6 * 32, 3)}}, run).outputs.at("y");
  };
  const MeshRunOptions run{.variables = {{"table", spread(96 * 32, 7)}}};
  EXPECT_EQ(logits(WeightCopyOptions{.type = DType::kFloat32, .in_strips = true}, run), logits({}, run));
}

TEST(WeightCopies, LeaveOtherContractions) {
  Graph graph;
  use_weight_copies(graph, WeightCopyOptions{});
  const Tensor x = graph.input("x", {kCopiedBatch, kCopiedVector}),
               w = graph.read(weight(graph, "w", {kCopiedVector, kCopiedHidden})),
               v = graph.read(weight(graph, "v", {kCopiedHidden, kCopiedIds})),
               each = graph.read(weight(graph, "each", {kCopiedBatch, kCopiedVector})),
               cache = graph.read(graph.variable("cache", {kCopiedVector, kCopiedHidden}, DType::kFloat32,
                                                 Initializer::zeros(), Variable::Kind::kSession));
  graph.set_output("of weights", einsum({w, v}, {kCopiedVector, kCopiedIds}));
  graph.set_output("with batch", einsum({x, each}, {kCopiedBatch}));
  const Tensor few = graph.input("few", {kCopiedBatch, {"heads", 8}}),
               map = graph.read(weight(graph, "map", {{"heads", 8}, kCopiedHidden}));
  graph.set_output("of a cache", einsum({x, cache}, {kCopiedBatch, kCopiedHidden}));
  graph.set_output("of few", einsum({few, map}, {kCopiedBatch, kCopiedHidden}));
  EXPECT_EQ(graph.weight_copies()->size(), 0);
  EXPECT_THAT(partition(graph, Layouts::single()).to_string(), Not(HasSubstr("int8")));
}

}  // namespace
}  // namespace mtf::testing
