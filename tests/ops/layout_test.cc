// Checks that every operation gives the values of one position under legal layouts, of which it draws up to 50 for each mesh;
// replicas are compared bit for bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <sstream>

#include "engine/backend/cpu/registry/kernel_registry.h"
#include "engine/graph/gradients.h"
#include "tests/support/budget.h"
#include "tests/support/legality.h"
#include "tests/support/operation_cases.h"
#include "tests/support/run_on_mesh.h"
#include "tests/support/test_backend.h"

namespace mtf::testing {
namespace {

/// Builds a case; the outputs of the graph are its outputs and their gradients.
std::map<std::string, Values> build(const OperationCase& operation_case, Graph& graph) {
  CaseBuilder builder(graph, DType::kFloat32);
  const Tensors outputs = operation_case.build(builder);
  Tensors inputs, ys;
  for (const auto& operation : graph.root()) {
    if (operation->name() == "input" && is_floating(operation->outputs()[0].dtype))
      inputs.push_back(operation->output());
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    graph.set_output("output_" + std::to_string(i), outputs[i]);
    if (is_floating(outputs[i].dtype())) ys.push_back(outputs[i]);
  }
  if (ys.empty()) return builder.feeds;
  // The cotangents differ between elements.
  Tensors cotangents;
  for (size_t i = 0; i < ys.size(); ++i) {
    cotangents.push_back(builder.input("cotangent_" + std::to_string(i), ys[i].shape(), 0.5, 1.5));
  }
  const Tensors gradient = gradients(ys, inputs, cotangents);
  for (size_t i = 0; i < gradient.size(); ++i) {
    if (gradient[i]) graph.set_output("gradient_" + std::to_string(i), gradient[i]);
  }
  return builder.feeds;
}

class EveryLayout : public ::testing::TestWithParam<size_t> {};

TEST_P(EveryLayout, GivesTheValuesOfOnePosition) {
  const OperationCase& operation_case = operation_cases()[GetParam()];
  if (is_for_processors(operation_case) && !test_backend()->is_host())
    GTEST_SKIP() << "no device has a kernel";
  Graph graph;
  const std::map<std::string, Values> feeds = build(operation_case, graph);
  const MeshRun one = run_on_mesh(graph, Layouts::single(), feeds);
  int legal = 0;
  std::mt19937 random(static_cast<uint32_t>(GetParam()));
  for (const std::string mesh : {"x:2", "x:3", "x:2;y:2"}) {
    std::vector<Layouts> drawn = all_layouts(dimension_names(graph), mesh);
    std::shuffle(drawn.begin(), drawn.end(), random);
    const int most = legal + tries(50);
    for (const Layouts& layouts : drawn) {
      if (legal == most) break;
      Diagnostics diagnostics;
      check_layouts(graph, layouts, diagnostics);
      if (diagnostics.has_errors()) continue;
      ++legal;
      MeshRun run;
      ASSERT_NO_THROW(run = run_on_mesh(graph, layouts, feeds))
          << operation_case.operations << " " << describe(layouts);
      for (const auto& [name, values] : one.outputs) {
        ASSERT_LE(relative_difference(run.outputs.at(name), values), 2e-5)
            << operation_case.operations << " " << name << " " << describe(layouts) << "\n"
            << run.program.to_string();
      }
    }
  }
  EXPECT_GE(legal, 1) << operation_case.operations;
}

INSTANTIATE_TEST_SUITE_P(Operations, EveryLayout, ::testing::Range<size_t>(0, operation_cases().size()),
                         [](const auto& info) {
                           std::string name = operation_cases()[info.param].operations;
                           for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
                           return std::to_string(info.param) + "_" + name;
                         });

/// Checks that every kernel belongs to an operation that has a case, and thereby gradient and layout tests.
TEST(Operations, EachHasACase) {
  std::set<std::string> covered;
  for (const OperationCase& operation_case : operation_cases()) {
    std::istringstream words(operation_case.operations);
    for (std::string word; words >> word;) covered.insert(word);
  }
  for (const auto& [name, dtype] : cpu_kernels()) EXPECT_TRUE(covered.contains(name)) << name;
}

}  // namespace
}  // namespace mtf::testing
