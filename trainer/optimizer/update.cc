#include "trainer/optimizer/update.h"

#include <fmt/format.h>

#include <map>

#include "engine/graph/structural.h"
#include "engine/ops/binary.h"
#include "engine/ops/cast.h"
#include "engine/ops/optimizer_updates.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"
#include "layers/context.h"
#include "trainer/optimizer/averages.h"
#include "trainer/optimizer/patterns.h"

namespace mtf {
namespace {

/// Moves the running mean of `variable` towards its new value.
void update_average(UpdateContext& context, const Variable& variable, const Tensor& value, double decay) {
  const Variable& mean = context.mean(average_name(variable.name), variable.shape);
  const Tensor rate = context.scalar_of_slot(mean.name, "optimizer/average_rate",
                                             [decay](int64_t step) { return average_rate(decay, step); });
  const Tensor old = context.read(mean);
  context.assign(mean, sgd_update(old, subtract(old, cast(value, mean.dtype)), rate));
}

std::vector<std::string> weights_of(const Graph& graph) {
  std::vector<std::string> names;
  for (const auto& variable : graph.variables()) {
    if (variable->kind == Variable::Kind::kWeight) names.push_back(variable->name);
  }
  return names;
}

/// Learning rates and weight decays of single weights, as the optimizer's options and its rules say.
class WeightSettings {
 public:
  WeightSettings(const Graph& graph, const UpdateOptions& options)
      : options_(options), optimizer_(*options.optimizer) {
    if (optimizer_.layer_decay) {
      layer_scales_ = layer_rate_scales(options.weights.empty() ? weights_of(graph) : options.weights,
                                        *optimizer_.layer_decay);
    }
  }

  /// The updates that follow in `context` have the rate of this weight. Returns the weight's decay.
  double use(UpdateContext& context, const std::string& weight) const {
    const RuleSettings settings = settings_of(weight, optimizer_.rules);
    const double scale = settings.rate_scale * (layer_scales_.empty() ? 1 : layer_scales_.at(weight));
    if (settings.rate) {
      const std::vector<Schedule>& rate = optimizer_.rules[*settings.rate].learning_rate;
      context.use_learning_rate(
          fmt::format("optimizer/rules/{}/learning_rate", *settings.rate),
          [rate, total = options_.total_steps](int64_t step) { return schedule_value(rate, step, total); },
          scale);
    } else {
      context.use_learning_rate(
          kLearningRateInput, [options = options_](int64_t step) { return learning_rate_at(options, step); },
          scale);
    }
    const double common = matches_any(weight, optimizer_.no_decay) ? 0 : optimizer_.weight_decay;
    return settings.weight_decay.value_or(common);
  }

 private:
  const UpdateOptions& options_;
  const OptimizerOptions& optimizer_;
  std::map<std::string, double> layer_scales_;
};

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
  UpdateContext context(graph, update.finite, update.scalars, options.slot_type, options.slots_on_host,
                        options.begins);
  const WeightSettings settings(graph, options);
  for (const VariableGradient& g : gradients) {
    const Variable& variable = *g.variable;
    const auto of_variable = graph.scope(variable.name);
    Tensor value = graph.read(variable);
    if (g.gradient) {
      context.use_first_element(g.first_element);
      const double decay = settings.use(context, variable.name);
      value = optimizer.update(context, {variable, value, clipped(g.gradient), decay});
      context.assign(variable, value);
    }
    if (options.ema_decay) update_average(context, variable, value, *options.ema_decay);
  }
  return update;
}

double learning_rate_at(const UpdateOptions& options, int64_t step) {
  if (!options.learning_rate.empty()) return schedule_value(options.learning_rate, step, options.total_steps);
  return options.optimizer->own_learning_rate(step).value();
}

}  // namespace mtf
