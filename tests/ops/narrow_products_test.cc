#include "engine/ops/narrow_products.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "engine/ops/einsum.h"
#include "engine/ops/indexing.h"
#include "engine/ops/reshape.h"
#include "tests/support/run_on_mesh.h"

namespace mtf::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const Dimension kNarrowBatch{"batch", 6}, kNarrowVector{"d_model", 32}, kNarrowHidden{"hidden", 64},
    kNarrowIds{"vocab", 48};

/// n numbers that are spread evenly over [-1, 1).
Values spread(int64_t n, uint32_t seed) {
  Values values;
  for (int64_t i = 0; i < n; ++i) {
    seed = seed * 1664525u + 1013904223u;
    values.push_back(static_cast<float>(seed >> 8) * 0x1p-23f - 1);
  }
  return values;
}

const std::map<std::string, Values>& wide_weights() {
  static const std::map<std::string, Values> weights{
      {"wi", spread(32 * 64, 7)}, {"wo", spread(64 * 32, 13)}, {"table", spread(48 * 32, 9)}};
  return weights;
}

const Variable& weight(Graph& graph, const std::string& name, const Shape& shape) {
  return graph.variable(name, shape, DType::kFloat32, Initializer::zeros());
}

/// Two layers on vectors that are looked up in a table, which makes the logits, too.
std::unique_ptr<Graph> narrow_graph(const std::optional<NarrowOptions>& options) {
  auto graph = std::make_unique<Graph>();
  use_narrow_products(*graph, options);
  const Tensor ids = graph->input("ids", {kNarrowBatch}, DType::kInt32);
  const Tensor table = graph->read(weight(*graph, "table", {kNarrowIds, kNarrowVector})),
               wi = graph->read(weight(*graph, "wi", {kNarrowVector, kNarrowHidden})),
               wo = graph->read(weight(*graph, "wo", {kNarrowHidden, kNarrowVector}));
  const Tensor x = gather(table, ids, "vocab");
  const Tensor h = einsum({x, wi}, {kNarrowBatch, kNarrowHidden}),
               y = einsum({wo, h}, {kNarrowBatch, kNarrowVector});
  graph->set_output("y", y);
  graph->set_output("logits", einsum({y, table}, {kNarrowIds, kNarrowBatch}));
  return graph;
}

/// The outputs of the graph with narrow copies that its conversions make.
std::map<std::string, Values> run_narrow(const Graph& graph, const Layouts& layouts) {
  std::map<std::string, Values> variables = wide_weights();
  const NarrowProducts& products = *graph.narrow_products();
  for (int64_t i = 0; i < products.size(); ++i) {
    const std::unique_ptr<Graph> conversion = products.conversion(i, i + 1);
    MeshRunOptions options;
    for (const auto& variable : conversion->variables()) {
      if (variable->kind == Variable::Kind::kWeight)
        options.variables[variable->name] = wide_weights().at(variable->name);
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
  return run_on_mesh(*narrow_graph({}), Layouts::single(), {{"ids", {3, 0, 47, 21, 8, 3}}},
                     {.variables = wide_weights()})
      .outputs;
}

double deviation(const Values& values) {
  double squares = 0;
  for (const double x : values) squares += x * x;
  return std::sqrt(squares / static_cast<double>(values.size()));
}

class NarrowProduct : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Types, NarrowProduct, ::testing::Values(DType::kBFloat16, DType::kInt8),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST_P(NarrowProduct, IsNearlyThatOfTheWeights) {
  const std::map<std::string, Values> wide = run_wide(),
                                      narrow = run_narrow(*narrow_graph(NarrowOptions{GetParam()}),
                                                          Layouts::single());
  for (const auto& [name, values] : wide) {
    Values errors;
    for (size_t i = 0; i < values.size(); ++i) errors.push_back(narrow.at(name)[i] - values[i]);
    EXPECT_LT(deviation(errors), 0.03 * deviation(values)) << name;
    EXPECT_NE(narrow.at(name), values);
  }
}

TEST_P(NarrowProduct, StoresOnlyWhatIsRead) {
  const auto graph = narrow_graph(NarrowOptions{GetParam()});
  std::map<std::string, DType> stored;
  for (const ProgramVariable& v : partition(*graph, Layouts::single()).variables)
    stored[v.variable.name] = v.variable.dtype;
  if (GetParam() == DType::kInt8) {
    EXPECT_EQ(stored, (std::map<std::string, DType>{{"table", DType::kFloat32},
                                                    {"wi/int8_d_model", DType::kUInt8},
                                                    {"wi/int8_d_model/scale", DType::kFloat32},
                                                    {"wo/int8_hidden", DType::kUInt8},
                                                    {"wo/int8_hidden/scale", DType::kFloat32},
                                                    {"table/int8_d_model", DType::kUInt8},
                                                    {"table/int8_d_model/scale", DType::kFloat32}}));
  } else {
    EXPECT_EQ(stored, (std::map<std::string, DType>{{"table", DType::kFloat32},
                                                    {"wi/bfloat16", DType::kBFloat16},
                                                    {"wo/bfloat16", DType::kBFloat16},
                                                    {"table/bfloat16", DType::kBFloat16}}));
  }
}

TEST_P(NarrowProduct, NoLayoutChangesIt) {
  const auto whole = run_narrow(*narrow_graph(NarrowOptions{GetParam()}), Layouts::single());
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
    const auto outputs = run_narrow(*narrow_graph(NarrowOptions{GetParam(), parts}), split);
    for (const auto& [name, values] : whole) {
      if (GetParam() == DType::kInt8) {
        EXPECT_EQ(outputs.at(name), values) << name;
      } else {
        EXPECT_LE(relative_difference(outputs.at(name), values), 1e-2) << name;
      }
    }
  }
}

TEST(NarrowProducts, ShareTheCodesOfWhatSeveralMultiply) {
  Graph graph;
  use_narrow_products(graph, NarrowOptions{});
  const Tensor x = graph.input("x", {kNarrowBatch, kNarrowVector});
  for (const char* name : {"q", "k"})
    graph.set_output(name, einsum({x, graph.read(weight(graph, name, {kNarrowVector, kNarrowHidden}))},
                                  {kNarrowBatch, kNarrowHidden}));
  const std::string text = partition(graph, Layouts::single()).to_string();
  EXPECT_EQ(text.find("quantize_rows"), text.rfind("quantize_rows")) << text;
  EXPECT_EQ(graph.narrow_products()->size(), 2);
}

TEST(NarrowProducts, KnowViewsOfWeights) {
  Graph graph;
  use_narrow_products(graph, NarrowOptions{});
  const Dimension heads{"heads", 4}, key{"d_kv", 16};
  const Tensor w = graph.read(weight(graph, "w", {kNarrowVector, kNarrowHidden}));
  const Tensor apart = replace_dimensions(w, {kNarrowHidden}, {heads, key}),
               x = graph.input("x", {kNarrowBatch, kNarrowVector});
  graph.set_output("apart", einsum({x, apart}, {kNarrowBatch, heads, key}));
  graph.set_output("whole", einsum({x, w}, {kNarrowBatch, kNarrowHidden}));
  const Program program = partition(graph, Layouts::single());
  EXPECT_THAT(program.to_string(), Not(HasSubstr("einsum")));
  EXPECT_EQ(graph.narrow_products()->size(), 2);  // columns of other dimensions are another copy
  const Values values = spread(32 * 64, 7), rows = spread(6 * 32, 3);
  MeshRunOptions options{.variables = {{"w", values}}};
  options.variables =
      run_on_mesh(*graph.narrow_products()->conversion(0, 2), Layouts::single(), {}, options).variables;
  options.variables.erase("w");
  const auto outputs = run_on_mesh(graph, Layouts::single(), {{"x", rows}}, options).outputs;
  EXPECT_EQ(outputs.at("apart"), outputs.at("whole"));
}

TEST(NarrowProducts, LeaveOtherContractions) {
  Graph graph;
  use_narrow_products(graph, NarrowOptions{});
  const Tensor x = graph.input("x", {kNarrowBatch, kNarrowVector}),
               w = graph.read(weight(graph, "w", {kNarrowVector, kNarrowHidden})),
               v = graph.read(weight(graph, "v", {kNarrowHidden, kNarrowIds})),
               each = graph.read(weight(graph, "each", {kNarrowBatch, kNarrowVector})),
               cache = graph.read(graph.variable("cache", {kNarrowVector, kNarrowHidden}, DType::kFloat32,
                                                 Initializer::zeros(), Variable::Kind::kSession));
  graph.set_output("of weights", einsum({w, v}, {kNarrowVector, kNarrowIds}));
  graph.set_output("with batch", einsum({x, each}, {kNarrowBatch}));
  const Tensor few = graph.input("few", {kNarrowBatch, {"heads", 8}}),
               map = graph.read(weight(graph, "map", {{"heads", 8}, kNarrowHidden}));
  graph.set_output("of a cache", einsum({x, cache}, {kNarrowBatch, kNarrowHidden}));
  graph.set_output("of few", einsum({few, map}, {kNarrowBatch, kNarrowHidden}));
  EXPECT_EQ(graph.narrow_products()->size(), 0);
  EXPECT_THAT(partition(graph, Layouts::single()).to_string(), Not(HasSubstr("int8")));
}

}  // namespace
}  // namespace mtf::testing
