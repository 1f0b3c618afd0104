#include "trainer/optimizer/optimizers.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <regex>

#include "engine/graph/structural.h"
#include "engine/ops/adafactor.h"
#include "engine/ops/binary.h"
#include "engine/ops/cast.h"
#include "engine/ops/optimizer_updates.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"
#include "layers/context.h"
#include "trainer/optimizer/averages.h"

namespace mtf {
namespace {

/// Adds the updates of one optimizer, variable by variable.
class Updater {
 public:
  Updater(Graph& graph, const Tensor& guard, const UpdateOptions& options, std::vector<StepScalar>& scalars)
      : graph_(graph), guard_(guard), common_(common_options(options.optimizer)), scalars_(scalars) {
    rate_ = scalar(kLearningRateInput, [options](int64_t step) { return learning_rate_at(options, step); });
    if (options.ema_decay) {
      average_rate_ = scalar("optimizer/average_rate", [decay = *options.ema_decay](int64_t step) {
        return average_rate(decay, step);
      });
    }
  }

  /// Appends the update of `variable`; `gradient` is clipped already. Returns the new value.
  template <class Options>
  Tensor update(const Options& options, const Variable& variable, const Tensor& gradient) {
    const Tensor weight = graph_.read(variable);
    const bool decays = common_.weight_decay > 0 && !matches_any(variable.name, common_.no_decay);
    Tensor updated = apply(options, variable, weight, gradient, decays ? common_.weight_decay : 0);
    graph_.assign(variable, updated, guard_);
    return updated;
  }

  /// Moves the running mean of `variable`, if there are any, towards its new value.
  void average(const Variable& variable, const Tensor& value) {
    if (!average_rate_) return;
    const Variable& mean = slot(average_name(variable.name), variable.shape);
    const Tensor old = graph_.read(mean);
    const Tensor difference = subtract(old, cast(value, mean.dtype));
    graph_.assign(mean, sgd_update(old, difference, average_rate_), guard_);
  }

 private:
  Tensor scalar(std::string_view name, std::function<double(int64_t)> value) {
    scalars_.push_back({std::string(name), std::move(value)});
    return graph_.input(std::string(name), {});
  }

  /// The learning rate times `scale`, made once for each scale.
  Tensor scaled_rate(double scale) {
    if (scale == 1) return rate_;
    Tensor& rate = scaled_rates_[scale];
    if (!rate) rate = scalar_multiply(rate_, scale);
    return rate;
  }

  const Variable& slot(const std::string& name, const Shape& shape) {
    return graph_.variable(name, shape, DType::kFloat32, Initializer::zeros(), Variable::Kind::kSlot);
  }

  /// The decoupled decay of an update that does not have it built in: updated - rate * decay * weight.
  Tensor decayed(const Tensor& updated, const Tensor& weight, double decay) {
    if (decay == 0) return updated;
    return subtract(updated, multiply(weight, cast(scalar_multiply(rate_, decay), weight.dtype())));
  }

  Tensor apply(const SgdOptions&, const Variable&, const Tensor& weight, const Tensor& gradient,
               double decay) {
    return decayed(sgd_update(weight, gradient, rate_), weight, decay);
  }

  Tensor apply(const MomentumOptions& options, const Variable& variable, const Tensor& weight,
               const Tensor& gradient, double decay) {
    const Variable& v = slot(variable.name + "_momentum_v", variable.shape);
    const MomentumUpdate u = momentum_update(weight, gradient, graph_.read(v), rate_, options.momentum);
    graph_.assign(v, u.velocity, guard_);
    return decayed(u.weight, weight, decay);
  }

  Tensor apply(const AdamOptimizerOptions& options, const Variable& variable, const Tensor& weight,
               const Tensor& gradient, double decay) {
    if (!correction_.first) {
      const auto correction = [](double beta) {
        return [beta](int64_t step) { return 1 / (1 - std::pow(beta, static_cast<double>(step) + 1)); };
      };
      correction_.first = scalar("optimizer/first_moment_correction", correction(options.beta1));
      correction_.second = scalar("optimizer/second_moment_correction", correction(options.beta2));
    }
    return adam({options.beta1, options.beta2, options.epsilon, decay},
                options.scaled_steps ? variable.step_scale : 1, variable, weight, gradient);
  }

  Tensor apply(const AdamWeightDecayOptions& options, const Variable& variable, const Tensor& weight,
               const Tensor& gradient, double decay) {
    return adam({options.beta1, options.beta2, options.epsilon, decay},
                options.scaled_steps ? variable.step_scale : 1, variable, weight, gradient);
  }

  /// Adam on weight / scale: with w = scale * u, u's gradient is scale times w's, so that w's step is scale
  /// times as long, its epsilon 1 / scale, while the decay keeps its rate.
  Tensor adam(AdamOptions options, double scale, const Variable& variable, const Tensor& weight,
              const Tensor& gradient) {
    options.epsilon /= scale;
    options.weight_decay /= scale;
    const Variable& m = slot(variable.name + "/adam_m", variable.shape);
    const Variable& v = slot(variable.name + "/adam_v", variable.shape);
    const AdamUpdate u = adam_update(weight, gradient, graph_.read(m), graph_.read(v), scaled_rate(scale),
                                     options, correction_);
    graph_.assign(m, u.first_moment, guard_);
    graph_.assign(v, u.second_moment, guard_);
    return u.weight;
  }

  Tensor apply(const AdafactorOptimizerOptions& options, const Variable& variable, const Tensor& weight,
               const Tensor& gradient, double decay) {
    if (!decay_rate_) {
      decay_rate_ = scalar("optimizer/decay_rate", [rate = options.decay_rate](int64_t step) {
        return decay_rate_value(rate, step);
      });
    }
    const AdafactorOptions of_variable = adafactor_options(options, variable.name);
    std::vector<const Variable*> slots;
    Tensors values;
    for (const auto& [suffix, shape] : adafactor_slots(variable.shape, of_variable)) {
      slots.push_back(&slot(variable.name + suffix, shape));
      values.push_back(graph_.read(*slots.back()));
    }
    const AdafactorUpdate u = adafactor_update(weight, gradient, values, rate_, decay_rate_, of_variable);
    for (size_t i = 0; i < slots.size(); ++i) graph_.assign(*slots[i], u.slots[i], guard_);
    return decayed(u.weight, weight, decay);
  }

  static AdafactorOptions adafactor_options(const AdafactorOptimizerOptions& options,
                                            const std::string& variable) {
    const auto& excluded = options.exclude_from_parameter_scale;
    const bool scaled = std::none_of(excluded.begin(), excluded.end(), [&](const std::string& part) {
      return variable.find(part) != std::string::npos;
    });
    const double threshold = options.clipping_threshold;
    return {.multiply_by_parameter_scale = options.multiply_by_parameter_scale && scaled,
            .beta1 = options.beta1,
            .clipping_threshold = threshold > 0 ? std::optional(threshold) : std::nullopt,
            .factored = options.factored,
            .epsilon1 = options.epsilon1,
            .epsilon2 = options.epsilon2,
            .min_dim_size_to_factor = options.min_dim_size_to_factor,
            .stacked_dim_names = options.stacked_dim_names};
  }

  Graph& graph_;
  const Tensor guard_;
  const OptimizerOptions& common_;
  std::vector<StepScalar>& scalars_;
  Tensor rate_;
  std::map<double, Tensor> scaled_rates_;
  Tensor average_rate_;
  Tensor decay_rate_;
  BiasCorrection correction_;
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
  Tensor scale;
  if (const std::optional<double> clip = common_options(options.optimizer).clip_norm) {
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
  Updater updater(graph, update.finite, options, update.scalars);
  for (const VariableGradient& g : gradients) {
    const auto of_variable = graph.scope(g.variable->name);
    Tensor value = graph.read(*g.variable);
    if (g.gradient) {
      const Tensor gradient = clipped(g.gradient);
      value = std::visit([&](const auto& kind) { return updater.update(kind, *g.variable, gradient); },
                         options.optimizer);
    }
    updater.average(*g.variable, value);
  }
  return update;
}

double learning_rate_at(const UpdateOptions& options, int64_t step) {
  if (!options.learning_rate.empty()) return schedule_value(options.learning_rate, step, options.total_steps);
  const auto* adafactor = std::get_if<AdafactorOptimizerOptions>(&options.optimizer);
  return adafactor_learning_rate(step, !adafactor || adafactor->multiply_by_parameter_scale);
}

bool matches_any(const std::string& name, const std::vector<std::string>& patterns) {
  for (const std::string& pattern : patterns) {
    if (std::regex_search(name, std::regex(pattern))) return true;
  }
  return false;
}

}  // namespace mtf
