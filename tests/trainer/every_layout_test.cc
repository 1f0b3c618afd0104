// Tests every layout of small models on meshes of 1 to 8 positions: the legal ones give the losses and
// gradients of one position, with replicas compared bit for bit; the illegal ones are rejected.
// tests/support/legality.cc decides which are legal.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "engine/graph/gradients.h"
#include "engine/graph/structural.h"
#include "engine/ops/binary.h"
#include "engine/ops/concat.h"
#include "engine/ops/cross_entropy.h"
#include "engine/ops/einsum.h"
#include "engine/ops/reduce.h"
#include "engine/ops/reshape.h"
#include "engine/ops/unary.h"
#include "tests/support/legality.h"
#include "tests/support/parse_optimizer.h"
#include "tests/support/run_on_mesh.h"
#include "trainer/optimizer/update.h"

namespace mtf::testing {
namespace {

const Dimension kBatch{"batch", 24}, kInputs{"inputs", 12}, kHidden{"hidden", 24}, kClasses{"classes", 6};

Tensor weight(Graph& graph, const std::string& name, const Shape& shape) {
  return graph.read(graph.variable(name, shape, DType::kFloat32, Initializer::normal(0.3)));
}

Tensor mlp_loss(Graph& graph, const Tensor& x, const Tensor& labels, const Tensor& h) {
  const Tensor logits =
      add(einsum({h, weight(graph, "out/kernel", {kHidden, kClasses})}, Shape{x.shape()[0], kClasses}),
          weight(graph, "out/bias", {kClasses}));
  return reduce_mean(softmax_cross_entropy(logits, labels, "classes").loss, Shape());
}

Tensor first_layer(Graph& graph, const Tensor& x) {
  return relu(add(einsum({x, weight(graph, "in/kernel", {kInputs, kHidden})}, Shape{x.shape()[0], kHidden}),
                  weight(graph, "in/bias", {kHidden})));
}

void set_gradient_outputs(Graph& graph, const Tensor& loss) {
  Tensors weights;
  for (const auto& variable : graph.variables()) weights.push_back(graph.read(*variable));
  const Tensors gradient = gradients({loss}, weights);
  graph.set_output("loss", loss);
  for (size_t i = 0; i < weights.size(); ++i)
    graph.set_output("grad/" + graph.variables()[i]->name, gradient[i]);
}

void mlp(Graph& graph) {
  const Tensor x = graph.input("x", {kBatch, kInputs}),
               labels = graph.input("labels", {kBatch}, DType::kInt32);
  set_gradient_outputs(graph, mlp_loss(graph, x, labels, first_layer(graph, x)));
}

/// An MLP whose hidden layer is reshaped to groups; one half is squared, and both are concatenated along
/// another dimension.
void mlp_with_reshape_and_concat(Graph& graph) {
  const Tensor x = graph.input("x", {kBatch, kInputs}),
               labels = graph.input("labels", {kBatch}, DType::kInt32);
  const Tensor groups = reshape(first_layer(graph, x), {kBatch, {"groups", 4}, {"width", 6}});
  const Tensor both = concat({groups, square(groups)}, "width");
  const Tensor mixed =
      einsum({both, weight(graph, "mix/kernel", {{"groups", 4}, {"width", 12}, {"mixed", 24}})},
             Shape{kBatch, {"mixed", 24}});
  set_gradient_outputs(graph, mlp_loss(graph, x, labels, rename(mixed, "mixed", "hidden")));
}

/// An MLP with two microbatches, clipping by the global norm, and Adafactor.
void microbatched_mlp(Graph& graph) {
  const Tensor x = graph.input("x", {kBatch, kInputs}),
               labels = graph.input("labels", {kBatch}, DType::kInt32);
  const Tensors sums = repeat(
      graph, 2, {}, {"batch", 2},
      [&](const Tensors&) {
        const Tensor part = microbatch_slice(x);
        const Tensor loss =
            scalar_multiply(mlp_loss(graph, part, microbatch_slice(labels), first_layer(graph, part)), 0.5);
        Tensors weights;
        for (const auto& variable : graph.variables()) weights.push_back(graph.read(*variable));
        Tensors results = gradients({loss}, weights);
        results.insert(results.begin(), loss);
        return LoopResult{{}, results, {}};
      },
      Domain::kOptimizer);
  std::vector<VariableGradient> gradient;
  for (size_t i = 1; i < sums.size(); ++i) gradient.push_back({graph.variables()[i - 1].get(), sums[i]});
  UpdateOptions options;
  options.optimizer = parse_optimizer("{type: adafactor, clip_norm: 0.1}");
  const Update update = add_update(graph, sums[0], gradient, options);
  graph.set_output("loss", sums[0]);
  graph.set_output("grad_norm", update.grad_norm);
}

std::map<std::string, Values> feeds(const Graph& graph) {
  std::map<std::string, Values> result;
  for (const auto& operation : graph.root()) {
    const auto* input = dynamic_cast<const Input*>(operation.get());
    if (!input) continue;
    Values& values = result[input->input_name];
    for (int64_t i = 0; i < input->outputs()[0].shape.size(); ++i) {
      if (input->input_name == "labels")
        values.push_back(static_cast<double>(i % kClasses.size));
      else if (input->input_name == "x")
        values.push_back(std::sin(1.0 + static_cast<double>(i) * 0.7));
      else
        values.push_back(0.01);  // the scalars of the optimizer
    }
  }
  return result;
}

struct ModelCase {
  std::string name;
  void (*build)(Graph&);
  int minimum_legal;
  int minimum_illegal;
};
std::ostream& operator<<(std::ostream& out, const ModelCase& model) { return out << model.name; }

class EveryModelLayout : public ::testing::TestWithParam<ModelCase> {};

TEST_P(EveryModelLayout, LegalOnesGiveTheLossesAndGradientsOfOnePosition) {
  Graph graph;
  GetParam().build(graph);
  const std::map<std::string, Values> inputs = feeds(graph);
  MeshRunOptions options;
  options.threads = 1;
  options.steps = 2;
  const MeshRun one = run_on_mesh(graph, Layouts::single(), inputs, options);
  ASSERT_TRUE(std::isfinite(one.outputs.at("loss")[0]));
  int legal = 0, illegal = 0;
  for (const std::string mesh : {"x:2", "x:3", "x:4", "x:2;y:2", "x:2;y:3", "x:2;y:2;z:2"}) {
    for (const Layouts& layouts : all_layouts(dimension_names(graph), mesh)) {
      Diagnostics diagnostics;
      check_layouts(graph, layouts, diagnostics);
      const std::string reason = why_illegal(graph, layouts);
      ASSERT_EQ(diagnostics.has_errors(), !reason.empty())
          << describe(layouts) << reason
          << (diagnostics.has_errors() ? diagnostics.errors()[0].to_string() : " is not reported");
      if (!reason.empty()) {
        ++illegal;
        continue;
      }
      ++legal;
      const MeshRun run = run_on_mesh(graph, layouts, inputs, options);
      for (const auto& [name, values] : one.outputs) {
        ASSERT_LE(relative_difference(run.outputs.at(name), values), 1e-5)
            << name << " " << describe(layouts);
      }
      for (const auto& [name, values] : one.variables) {
        ASSERT_LE(relative_difference(run.variables.at(name), values), 1e-5)
            << name << " " << describe(layouts);
      }
    }
  }
  fmt::print("{}: {} legal and {} illegal layouts\n", GetParam().name, legal, illegal);
  EXPECT_GE(legal, GetParam().minimum_legal);
  EXPECT_GE(illegal, GetParam().minimum_illegal);
}

/// With parameter_layout and optimizer_layout in addition to every layout, variables and slots are stored
/// elsewhere, but the step is the same.
TEST(EveryStateLayout, GivesTheStepOfOnePosition) {
  Graph graph;
  microbatched_mlp(graph);
  const std::map<std::string, Values> inputs = feeds(graph);
  MeshRunOptions options;
  options.threads = 1;
  options.steps = 2;
  const MeshRun one = run_on_mesh(graph, Layouts::single(), inputs, options);
  const std::vector<Layouts> some = all_layouts({"batch", "hidden", "inputs"}, "x:2;y:2");
  int legal = 0, illegal = 0;
  for (const Layouts& base : some) {
    for (const Layouts& state : some) {
      for (const bool slots_only : {false, true}) {
        const Layouts layouts = slots_only ? Layouts::make(base.mesh, base.activation, {}, state.activation)
                                           : Layouts::make(base.mesh, base.activation, state.activation);
        Diagnostics diagnostics;
        check_layouts(graph, layouts, diagnostics);
        ASSERT_EQ(diagnostics.has_errors(), !why_illegal(graph, layouts).empty())
            << describe(base) << describe(state);
        ++(diagnostics.has_errors() ? illegal : legal);
        if (diagnostics.has_errors()) continue;
        const MeshRun run = run_on_mesh(graph, layouts, inputs, options);
        for (const auto& [name, values] : one.variables) {
          ASSERT_LE(relative_difference(run.variables.at(name), values), 1e-5)
              << name << " " << describe(base) << " state " << describe(state);
        }
      }
    }
  }
  fmt::print("{} legal and {} illegal\n", legal, illegal);
  EXPECT_GE(legal, 200);
  EXPECT_GE(illegal, 200);
}

INSTANTIATE_TEST_SUITE_P(Models, EveryModelLayout,
                         ::testing::Values(ModelCase{"mlp", mlp, 50, 50},
                                           ModelCase{"reshape_and_concat", mlp_with_reshape_and_concat, 200,
                                                     500},
                                           ModelCase{"microbatched", microbatched_mlp, 50, 50}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace mtf::testing
