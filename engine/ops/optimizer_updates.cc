#include "engine/ops/optimizer_updates.h"

#include <fmt/format.h>

#include "engine/ops/cast.h"
#include "engine/ops/fused.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"

namespace mtf {
namespace {

void check_shape(std::string_view operation, const Tensor& weight, const Tensor& other,
                 std::string_view what) {
  if (other.shape() != weight.shape()) {
    shape_error(operation, fmt::format("the {} has shape {}", what, other.shape().to_string()),
                fmt::format("{}, that of the weight", weight.shape().to_string()));
  }
}

void check_slot(std::string_view operation, const Tensor& weight, const Tensor& slot) {
  check_shape(operation, weight, slot, "slot");
  const DType wide = accumulation_dtype(weight.dtype());
  if (slot.dtype() == wide || (slot.dtype() == DType::kBFloat16 && wide == DType::kFloat32)) return;
  shape_error(operation, fmt::format("a slot is {}", name_of(slot.dtype())), std::string(name_of(wide)));
}

/// The random numbers by which the slots are rounded; nothing: they are stored as they are computed.
std::optional<RandomSource> rounding_of(std::string_view operation, const Tensor& slot,
                                        int64_t first_element) {
  if (slot.dtype() != DType::kBFloat16) return std::nullopt;
  RandomSource source = RandomSource::make(slot.graph(), std::string(operation), slot.shape());
  source.first_element = first_element;
  return source;
}

std::string name_of_rounding(const std::optional<RandomSource>& rounding) {
  return rounding ? ", name=" + rounding->name : std::string();
}

Tensor scalar_of(std::string_view operation, const Tensor& weight, const Tensor& scalar) {
  if (scalar.shape().rank() != 0) {
    shape_error(operation, fmt::format("a scalar has shape {}", scalar.shape().to_string()));
  }
  return cast(scalar, accumulation_dtype(weight.dtype()));
}

Tensor gradient_of(std::string_view operation, const Tensor& weight, const Tensor& gradient) {
  check_shape(operation, weight, gradient, "gradient");
  return cast(gradient, accumulation_dtype(weight.dtype()));
}

}  // namespace

Tensor sgd_update(const Tensor& weight, const Tensor& gradient, const Tensor& learning_rate) {
  constexpr std::string_view name = "sgd_update";
  return weight.graph()
      .add<SgdUpdate>(weight, gradient_of(name, weight, gradient), scalar_of(name, weight, learning_rate))
      .output();
}

MomentumUpdate momentum_update(const Tensor& weight, const Tensor& gradient, const Tensor& velocity,
                               const Tensor& learning_rate, double momentum, int64_t first_element) {
  constexpr std::string_view name = "momentum_update";
  check_slot(name, weight, velocity);
  const auto& step = weight.graph().add<MomentumStep>(weight, gradient_of(name, weight, gradient), velocity,
                                                      scalar_of(name, weight, learning_rate), momentum,
                                                      rounding_of(name, velocity, first_element));
  return {step.output(0), step.output(1)};
}

AdamUpdate adam_update(const Tensor& weight, const Tensor& gradient, const Tensor& first_moment,
                       const Tensor& second_moment, const Tensor& learning_rate, const AdamOptions& options,
                       const BiasCorrection& correction) {
  constexpr std::string_view name = "adam_update";
  check_slot(name, weight, first_moment);
  check_slot(name, weight, second_moment);
  if (first_moment.dtype() != second_moment.dtype()) shape_error(name, "the slots differ in their type");
  Tensors inputs{weight, gradient_of(name, weight, gradient), first_moment, second_moment,
                 scalar_of(name, weight, learning_rate)};
  if (correction.first || correction.second) {
    if (!correction.first || !correction.second) shape_error(name, "one bias correction of two is given");
    inputs.push_back(scalar_of(name, weight, correction.first));
    inputs.push_back(scalar_of(name, weight, correction.second));
  }
  const auto& step = weight.graph().add<AdamStep>(std::move(inputs), options,
                                                  rounding_of(name, first_moment, options.first_element));
  return {step.output(0), step.output(1), step.output(2)};
}

Tensor all_finite(const Tensors& tensors) {
  if (tensors.empty()) shape_error("all_finite", "no tensors");
  Tensors scalars;
  for (const Tensor& x : tensors) {
    // 0 * x is 0 for finite numbers and NaN for all others.
    const Tensor scalar = x.shape().rank() == 0 ? x : reduce_sum(scalar_multiply(x, 0), {});
    scalars.push_back(cast(scalar, tensors[0].dtype()));
  }
  return tensors[0].graph().add<AllFinite>(std::move(scalars)).output();
}

Tensors SgdUpdate::gradient(const Tensors&) const { not_differentiable(*this); }
Tensors MomentumStep::gradient(const Tensors&) const { not_differentiable(*this); }
Tensors AdamStep::gradient(const Tensors&) const { not_differentiable(*this); }

std::string MomentumStep::attributes() const {
  return fmt::format("momentum={}{}", momentum, name_of_rounding(rounding));
}

std::string AdamStep::attributes() const {
  return fmt::format("beta1={}, beta2={}, epsilon={}, weight_decay={}{}", options.beta1, options.beta2,
                     options.epsilon, options.weight_decay, name_of_rounding(rounding));
}

}  // namespace mtf
