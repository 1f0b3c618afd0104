#include "engine/ops/adafactor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/ops/binary.h"
#include "engine/ops/cast.h"
#include "engine/ops/fused.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"

namespace mtf {
namespace {

constexpr std::string_view kBlock = "adafactor_block";
constexpr int64_t kElementsPerBlock = 1 << 18;
constexpr int64_t kMaximalBlocks = 16;

/// Returns `shape`, preceded by the block dimension of the weight if it has one.
Shape blocked(const Shape& weight, const Shape& shape) {
  const std::optional<Dimension> blocks = adafactor_blocks(weight);
  return blocks ? Shape{*blocks} + shape : shape;
}

/// Returns the sum of the blocks of an output.
Tensor unblocked(const Tensor& x) {
  return x.shape().contains(kBlock) ? reduce_sum(x, without(x.shape(), kBlock)) : x;
}

Shape stacked(const Shape& shape, const AdafactorOptions& options) {
  std::vector<Dimension> kept;
  for (const Dimension& d : shape) {
    const auto& names = options.stacked_dim_names;
    if (std::find(names.begin(), names.end(), d.name) != names.end()) kept.push_back(d);
  }
  return Shape(std::move(kept));
}

std::vector<OutputInfo> sums_outputs(const Tensor& w, const Shape& summed,
                                     const std::optional<Shape>& weight_sums) {
  std::vector<OutputInfo> outputs;
  for (const Dimension& d : summed) outputs.push_back({blocked(w.shape(), w.shape() - d), DType::kFloat64});
  if (weight_sums) outputs.push_back({blocked(w.shape(), *weight_sums), DType::kFloat64});
  return outputs;
}

AxisMask axes_of(const LayoutMap& rules, const Shape& dimensions) {
  AxisMask mask = 0;
  for (const Dimension& d : dimensions) {
    for (int axis : rules.axes(d.name)) mask |= axis_bit(axis);
  }
  return mask;
}

void check(const Tensor& weight, const Tensor& gradient, const Tensors& slots,
           const std::vector<std::pair<std::string, Shape>>& expected) {
  if (gradient.shape() != weight.shape()) {
    shape_error("adafactor", fmt::format("the gradient has shape {}", gradient.shape().to_string()),
                fmt::format("{}, that of the weight", weight.shape().to_string()));
  }
  if (slots.size() != expected.size()) {
    shape_error("adafactor", fmt::format("{} slots are given, {} are needed", slots.size(), expected.size()));
  }
  for (size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].shape() != expected[i].second || slots[i].dtype() != accumulation_dtype(weight.dtype())) {
      shape_error(
          "adafactor",
          fmt::format("slot {} is {} {}", expected[i].first, name_of(slots[i].dtype()),
                      slots[i].shape().to_string()),
          fmt::format("{} {}", name_of(accumulation_dtype(weight.dtype())), expected[i].second.to_string()));
    }
  }
}

/// Composes the update of one weight.
class Composer {
 public:
  Composer(const Tensor& weight, const Tensor& gradient, const Tensors& slots, const Tensor& learning_rate,
           const Tensor& decay, const AdafactorOptions& options)
      : options_(options),
        w_(weight),
        g_(cast(gradient, accumulation_dtype(weight.dtype()))),
        slots_(slots),
        learning_rate_(cast(learning_rate, DType::kFloat64)),
        decay_(cast(decay, g_.dtype())),
        dimensions_(factored_dimensions(weight.shape(), options)) {}

  AdafactorUpdate compose() {
    AdafactorUpdate update;
    update.slots = second_moments();
    const Tensor scale = cast(update_scale(), g_.dtype());
    Tensors inputs{w_, g_, scale};
    if (options_.beta1 > 0) inputs.push_back(slots_.back());
    inputs.insert(inputs.end(), factors_.begin(), factors_.end());
    const auto& apply = graph().add<AdafactorApply>(std::move(inputs), options_.beta1);
    update.weight = apply.output(0);
    if (options_.beta1 > 0) update.slots.push_back(apply.output(1));
    return update;
  }

 private:
  Graph& graph() const { return w_.graph(); }

  /// Returns decay * slot + (1 - decay) * (sum / n + epsilon1).
  Tensor decayed(const Tensor& slot, const Tensor& sum, int64_t n) const {
    const Tensor mean = scalar_add(scalar_multiply(sum, 1.0 / static_cast<double>(n)), options_.epsilon1);
    const Tensor rest = scalar_add(negative(decay_), 1);
    return add(multiply(slot, decay_, slot.shape()), multiply(cast(mean, slot.dtype()), rest, slot.shape()),
               slot.shape());
  }

  /// Returns the new second moments; sets the factors of the update and the sums of w^2.
  Tensors second_moments() {
    const Shape kept = stacked(w_.shape(), options_);
    const std::optional<Shape> weight_sums =
        options_.multiply_by_parameter_scale ? std::optional<Shape>(kept) : std::nullopt;
    const Shape summed = dimensions_ ? Shape{dimensions_->largest, dimensions_->second} : Shape{};
    const AdafactorSums* sums = nullptr;
    if (dimensions_ || weight_sums) sums = &graph().add<AdafactorSums>(w_, g_, summed, weight_sums);
    if (weight_sums) weight_squares_ = unblocked(sums->output(summed.rank()));
    if (!dimensions_) {
      const Tensor v = graph().add<AdafactorSecondMoment>(slots_[0], g_, decay_, options_.epsilon1).output();
      factors_ = {v};
      return {v};
    }
    const auto& [largest, second] = *dimensions_;
    const Tensor row = decayed(slots_[0], unblocked(sums->output(0)), largest.size);
    const Tensor column = decayed(slots_[1], unblocked(sums->output(1)), second.size);
    const Tensor wide_row = cast(row, DType::kFloat64);
    const Tensor row_mean = reduce_mean(wide_row, row.shape() - second);
    factors_ = {cast(rsqrt(divide(wide_row, row_mean, row.shape())), row.dtype()), rsqrt(column)};
    return {row, column};
  }

  /// Returns learning rate * size of the weight / clipping, in float64: one value for each entry of the
  /// stacked dimensions.
  Tensor update_scale() const {
    Tensor scale = learning_rate_;
    if (options_.clipping_threshold) {
      Tensors inputs{g_};
      inputs.insert(inputs.end(), factors_.begin(), factors_.end());
      const Tensor squares = unblocked(graph().add<AdafactorUpdateSquares>(std::move(inputs)).output());
      const Tensor rms = sqrt(scalar_multiply(squares, 1.0 / static_cast<double>(w_.shape().size())));
      const Tensor ratio = scalar_multiply(rms, 1.0 / *options_.clipping_threshold);
      scale = divide(scale, maximum(ratio, graph().constant(1, DType::kFloat64)));
    }
    if (weight_squares_) {
      const double n = static_cast<double>(w_.shape().size() / weight_squares_.shape().size());
      const Tensor rms = sqrt(scalar_multiply(weight_squares_, 1.0 / n));
      const Tensor floor = graph().constant(options_.epsilon2, DType::kFloat64);
      scale = multiply(maximum(rms, floor, rms.shape()), scale, rms.shape());
    }
    return scale;
  }

  const AdafactorOptions& options_;
  Tensor w_, g_;
  Tensors slots_;
  Tensor learning_rate_, decay_;
  std::optional<FactoredDimensions> dimensions_;
  Tensors factors_;        ///< the row and column factors, or v
  Tensor weight_squares_;  ///< [stacked dimensions]; null without parameter scale
};

}  // namespace

std::optional<FactoredDimensions> factored_dimensions(const Shape& shape, const AdafactorOptions& options) {
  std::vector<Dimension> candidates = (shape - stacked(shape, options)).dimensions();
  if (!options.factored || candidates.size() < 2) return std::nullopt;
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Dimension& a, const Dimension& b) { return a.size > b.size; });
  if (candidates[1].size < options.min_dim_size_to_factor) return std::nullopt;
  return FactoredDimensions{candidates[0], candidates[1]};
}

std::vector<std::pair<std::string, Shape>> adafactor_slots(const Shape& shape,
                                                           const AdafactorOptions& options) {
  std::vector<std::pair<std::string, Shape>> slots;
  if (const auto dimensions = factored_dimensions(shape, options)) {
    slots = {{"_slot_vr", shape - dimensions->largest}, {"_slot_vc", shape - dimensions->second}};
  } else {
    slots = {{"_slot_v", shape}};
  }
  if (options.beta1 > 0) slots.emplace_back("_slot_m", shape);
  return slots;
}

AdafactorUpdate adafactor_update(const Tensor& weight, const Tensor& gradient, const Tensors& slots,
                                 const Tensor& learning_rate, const Tensor& decay,
                                 const AdafactorOptions& options) {
  check(weight, gradient, slots, adafactor_slots(weight.shape(), options));
  return Composer(weight, gradient, slots, learning_rate, decay, options).compose();
}

std::optional<Dimension> adafactor_blocks(const Shape& shape) {
  const int64_t blocks = std::min(kMaximalBlocks, shape.size() / kElementsPerBlock);
  return blocks > 1 ? std::optional<Dimension>({std::string(kBlock), blocks}) : std::nullopt;
}

AdafactorSums::AdafactorSums(const Tensor& w, const Tensor& g, const Shape& summed,
                             const std::optional<Shape>& weight_sums)
    : OperationBase({w, g}, sums_outputs(w, summed, weight_sums)), summed(summed), weight_sums(weight_sums) {}

std::string AdafactorSums::attributes() const {
  const std::string weights = weight_sums ? ", weights to " + weight_sums->to_string() : std::string();
  return "along " + summed.to_string() + weights;
}

std::vector<std::string> AdafactorSums::unsplittable() const { return {std::string(kBlock)}; }

ShardingRule AdafactorSums::sharding_rule(const ShardingRequest& request) const {
  ShardingRule rule = shard_by_name(*this, request);
  for (int i = 0; i < summed.rank(); ++i) rule.outputs[i].partial = axes_of(request.rules, {summed[i]});
  if (weight_sums) rule.outputs.back().partial = axes_of(request.rules, input(0).shape() - *weight_sums);
  return rule;
}

std::string AdafactorSecondMoment::attributes() const { return fmt::format("epsilon1={}", epsilon1); }

AdafactorUpdateSquares::AdafactorUpdateSquares(Tensors inputs)
    : OperationBase(inputs, {{blocked(inputs[0].shape(), {}), DType::kFloat64}}) {}

std::vector<std::string> AdafactorUpdateSquares::unsplittable() const { return {std::string(kBlock)}; }

ShardingRule AdafactorUpdateSquares::sharding_rule(const ShardingRequest& request) const {
  return shard_reduction(*this, request, input(0).shape(), Reduction::kSum);
}

AdafactorApply::AdafactorApply(Tensors inputs, double beta1)
    : OperationBase(inputs, beta1 > 0 ? std::vector<OutputInfo>{{inputs[0].shape(), inputs[0].dtype()},
                                                                {inputs[3].shape(), inputs[3].dtype()}}
                                      : std::vector<OutputInfo>{{inputs[0].shape(), inputs[0].dtype()}}),
      beta1(beta1) {}

std::string AdafactorApply::attributes() const { return fmt::format("beta1={}", beta1); }

Tensors AdafactorSums::gradient(const Tensors&) const { not_differentiable(*this); }
Tensors AdafactorSecondMoment::gradient(const Tensors&) const { not_differentiable(*this); }
Tensors AdafactorUpdateSquares::gradient(const Tensors&) const { not_differentiable(*this); }
Tensors AdafactorApply::gradient(const Tensors&) const { not_differentiable(*this); }

}  // namespace mtf
