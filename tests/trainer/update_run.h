// Optimizers on given weights and gradients, without a model.
//
//   UpdateRun run({{"w", {shape, DType::kFloat32, {1, 2}}}}, update_options("{type: sgd}", "0.1"));
//   run.step(0, {{"w", {0.5, 0}}}, Layouts::single());
//   run.variables().at("w");
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "engine/config/load.h"
#include "tests/support/golden.h"
#include "tests/support/parse_optimizer.h"
#include "tests/support/run_on_mesh.h"
#include "trainer/optimizer/update.h"

namespace mtf::testing {

inline UpdateOptions update_options(const std::string& optimizer, const std::string& learning_rate = {}) {
  Diagnostics diagnostics;
  UpdateOptions options;
  options.optimizer = parse_optimizer(optimizer);
  if (!learning_rate.empty()) {
    options.learning_rate = config::parse<std::vector<Schedule>>(
        config::parse_yaml(learning_rate, "test.yaml", diagnostics), diagnostics);
  }
  diagnostics.throw_if_errors();
  return options;
}

/// Normally distributed float32 values.
inline Values random_values(int64_t count, unsigned seed, double deviation = 1) {
  std::mt19937 generator(seed);
  std::normal_distribution<double> normal(0, deviation);
  Values values(static_cast<size_t>(count));
  for (double& value : values) value = static_cast<float>(normal(generator));
  return values;
}

/// Updates given weights by given gradients, step by step, on one position or on a mesh.
class UpdateRun {
 public:
  UpdateRun(std::map<std::string, GoldenTensor> weights, const UpdateOptions& options,
            double step_scale = 1) {
    std::vector<VariableGradient> gradients;
    for (const auto& [name, weight] : weights) {
      const Variable& variable = graph_.variable(name, weight.shape, DType::kFloat32, Initializer::zeros(),
                                                 Variable::Kind::kWeight, step_scale);
      gradients.push_back({&variable, graph_.input("gradient/" + name, weight.shape)});
      variables_[name] = weight.values;
    }
    update_ = add_update(graph_, graph_.input("loss", {}), gradients, options);
    graph_.set_output("grad_norm", update_.grad_norm);
    graph_.set_output("finite", update_.finite);
  }

  /// Runs one step; `gradients` are given by the variable's name.
  MeshRun step(int64_t step, const std::map<std::string, Values>& gradients, const Layouts& layouts,
               double loss = 1) {
    std::map<std::string, Values> feeds{{"loss", {loss}}};
    for (const auto& [name, values] : gradients) feeds["gradient/" + name] = values;
    for (const StepScalar& scalar : update_.scalars) feeds[scalar.input] = {scalar.value(step)};
    MeshRunOptions options;
    options.variables = variables_;
    options.first_step = static_cast<uint64_t>(step);
    MeshRun run = run_on_mesh(graph_, layouts, feeds, options);
    variables_ = run.variables;
    return run;
  }

  const std::map<std::string, Values>& variables() const { return variables_; }

 private:
  Graph graph_;
  Update update_;
  std::map<std::string, Values> variables_;
};

}  // namespace mtf::testing
