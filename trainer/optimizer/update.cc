#include "trainer/optimizer/update.h"

#include <map>
#include <regex>

#include "engine/graph/structural.h"
#include "engine/ops/binary.h"
#include "engine/ops/cast.h"
#include "engine/ops/optimizer_updates.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"
#include "layers/context.h"
#include "trainer/optimizer/averages.h"

namespace mtf {
namespace {

/// Moves the running mean of `variable` towards its new value.
void update_average(UpdateContext& context, const Variable& variable, const Tensor& value,
                    const Tensor& rate) {
  const Variable& mean = context.slot(average_name(variable.name), variable.shape);
  const Tensor old = context.read(mean);
  context.assign(mean, sgd_update(old, subtract(old, cast(value, mean.dtype)), rate));
}

}  // namespace

Tensors gradient_squares(Graph& graph, const std::vector<VariableGradient>& gradients) {
  const auto domain = graph.domain(Domain::kOptimizer);
  const auto phase = graph.phase(Phase::kUpdate);
  const auto scope = graph.scope("optimizer");
  Tensors squares;
  for (const VariableGradient& g : gradients) {
    const auto of_variable = graph.scope(g.variable->name);
    if (g.gradient) squares.push_back(sum_of_squares(g.gradient));
  }
  return squares;
}

Update add_update(Graph& graph, const Tensor& loss, const std::vector<VariableGradient>& gradients,
                  const UpdateOptions& options, Tensors squares) {
  if (squares.empty()) squares = gradient_squares(graph, gradients);
  const auto domain = graph.domain(Domain::kOptimizer);
  const auto phase = graph.phase(Phase::kUpdate);
  const auto scope = graph.scope("optimizer");
  Update update;
  if (squares.empty()) {
    throw Error(ErrorKind::kConfig, "there is nothing to train: the loss depends on no trainable variable",
                "`train.trainable` has the patterns of variables");
  }
  const Tensor norm = sqrt(add_n(squares));  // float64
  update.grad_norm = cast(norm, DType::kFloat32);
  update.finite = all_finite({loss, update.grad_norm});
  if (options.runs_ahead) update.finite = logical_and(update.finite, graph.input(kProceed, {}, DType::kBool));
  Tensor scale;
  if (const std::optional<double> clip = options.optimizer->clip_norm) {
    const Tensor limit = graph.constant(*clip, DType::kFloat64);
    scale = divide(limit, maximum(norm, limit));
  }
  std::map<DType, Tensor> scales;
  const auto clipped = [&](const Tensor& gradient) {
    if (!scale) return gradient;
    Tensor& of_type = scales[gradient.dtype()];
    if (!of_type) of_type = cast(scale, gradient.dtype());
    return multiply(gradient, of_type);
  };
  const OptimizerOptions& optimizer = *options.optimizer;
  UpdateContext context(graph, update.finite, update.scalars);
  context.set_learning_rate([options](int64_t step) { return learning_rate_at(options, step); });
  Tensor of_averages;
  if (options.ema_decay) {
    of_averages = context.scalar("optimizer/average_rate", [decay = *options.ema_decay](int64_t step) {
      return average_rate(decay, step);
    });
  }
  for (const VariableGradient& g : gradients) {
    const Variable& variable = *g.variable;
    const auto of_variable = graph.scope(variable.name);
    Tensor value = graph.read(variable);
    if (g.gradient) {
      const bool decays = optimizer.weight_decay > 0 && !matches_any(variable.name, optimizer.no_decay);
      value = optimizer.update(context,
                               {variable, value, clipped(g.gradient), decays ? optimizer.weight_decay : 0});
      context.assign(variable, value);
    }
    if (of_averages) update_average(context, variable, value, of_averages);
  }
  return update;
}

double learning_rate_at(const UpdateOptions& options, int64_t step) {
  if (!options.learning_rate.empty()) return schedule_value(options.learning_rate, step, options.total_steps);
  return options.optimizer->own_learning_rate(step).value();
}

bool matches_any(const std::string& name, const std::vector<std::string>& patterns) {
  for (const std::string& pattern : patterns) {
    if (std::regex_search(name, std::regex(pattern))) return true;
  }
  return false;
}

}  // namespace mtf
