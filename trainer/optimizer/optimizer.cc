#include "trainer/optimizer/optimizer.h"

#include <fmt/format.h>

#include "engine/ops/binary.h"
#include "engine/ops/cast.h"
#include "engine/ops/slot_code.h"
#include "engine/ops/stochastic_cast.h"
#include "engine/ops/unary.h"
#include "trainer/optimizer/slot_begins.h"
#include "trainer/optimizer/slot_blocks.h"

namespace mtf {

Tensor UpdateContext::scalar(std::string_view name, const std::function<double(int64_t step)>& value,
                             bool is_rate) {
  if (const auto found = inputs_.find(name); found != inputs_.end()) return found->second;
  scalars_.push_back({std::string(name), value, is_rate});
  return inputs_[std::string(name)] = graph_.input(std::string(name), {});
}

Tensor UpdateContext::scalar_of_slot(const std::string& slot, std::string_view name,
                                     const std::function<double(int64_t step)>& value) {
  if (!begins_) return scalar(name, value);
  std::string input(name);
  if (!begins_->are_known()) {
    input += "/" + slot;
  } else if (const int64_t begin = begins_->of(slot); begin > 0) {
    input += fmt::format("/since_{}", begin);
  }
  return scalar(input,
                [begins = begins_, slot, value](int64_t step) { return value(step - begins->of(slot)); });
}

void UpdateContext::use_learning_rate(std::string_view name, const std::function<double(int64_t step)>& rate,
                                      double scale) {
  rate_ = name;
  rate_scale_ = scale;
  scaled_rates_[{rate_, 1}] = scalar(name, rate, true);
}

Tensor UpdateContext::learning_rate(double scale) {
  Tensor& rate = scaled_rates_[{rate_, rate_scale_ * scale}];
  if (!rate) rate = scalar_multiply(scaled_rates_.at({rate_, 1}), rate_scale_ * scale);
  return rate;
}

const Variable& UpdateContext::slot(const std::string& name, const Shape& shape, SlotValues values) {
  if (slot_type_ != DType::kInt8) return add_slot(name, shape, slot_type_);
  if (values == SlotValues::kExact) return add_slot(name, shape, DType::kBFloat16);
  if (!has_slot_blocks(shape)) return add_slot(name, shape, DType::kFloat32);
  add_slot(slot_blocks_name(name), slot_blocks(shape), DType::kFloat32);
  return add_slot(name, shape, values == SlotValues::kPositive ? DType::kUInt8 : DType::kInt8);
}

const Variable& UpdateContext::add_slot(const std::string& name, const Shape& shape, DType dtype) {
  const Variable& slot = graph_.variable(name, shape, dtype, Initializer::zeros(), Variable::Kind::kSlot);
  if (slots_on_host_) graph_.place_on_host(slot);
  return slot;
}

const Variable& UpdateContext::mean(const std::string& name, const Shape& shape) {
  return graph_.variable(name, shape, DType::kFloat32, Initializer::zeros(), Variable::Kind::kSlot);
}

Tensor UpdateContext::read(const Variable& slot) { return cast(stored(slot), DType::kFloat32); }

Tensor UpdateContext::stored(const Variable& slot) {
  const Tensor value = graph_.read(slot);
  if (!is_slot_code(slot.dtype)) return value;
  return decode_slot(value, graph_.read(*graph_.find_variable(slot_blocks_name(slot.name))));
}

void UpdateContext::assign(const Variable& variable, const Tensor& value) {
  if (is_slot_code(variable.dtype)) {
    const Tensor largest = largest_of_blocks(value, variable.dtype);
    graph_.assign(*graph_.find_variable(slot_blocks_name(variable.name)), largest, guard_);
    graph_.assign(variable, encode_slot(value, largest, variable.dtype, first_element_), guard_);
    return;
  }
  const bool is_rounded = variable.kind == Variable::Kind::kSlot && variable.dtype != value.dtype();
  graph_.assign(variable, is_rounded ? stochastic_cast(value, first_element_) : value, guard_);
}

Tensor UpdateContext::decayed(const Tensor& updated, const WeightUpdate& w) {
  if (w.decay == 0) return updated;
  const Tensor rate = cast(scalar_multiply(learning_rate(), w.decay), w.weight.dtype());
  return subtract(updated, multiply(w.weight, rate));
}

void describe_common(config::Visitor& visit, OptimizerOptions& options) {
  visit("clip_norm", options.clip_norm,
        "all gradients are scaled down so that their common norm is at most this", config::positive);
  visit("weight_decay", options.weight_decay, "weights also move by -learning_rate * weight_decay * weight",
        config::non_negative);
  visit("no_decay", options.no_decay, "patterns of variables without weight decay");
  visit("rules", options.rules,
        "settings of the variables that match; the first rule that matches and has a setting counts for it");
  visit("layer_decay", options.layer_decay,
        "each layer of a stack has this times the learning rate of the next one, the last layer this times "
        "the rate "
        "of what follows, and embeddings this times that of the first",
        config::Bounds{0.0, 1.0, true});
}

}  // namespace mtf
