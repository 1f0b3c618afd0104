#include "engine/ops/routing.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/ops/cast.h"
#include "engine/ops/whole_dimension.h"

namespace mtf {
namespace {

DType weight_type(DType rows) { return rows == DType::kFloat64 ? rows : DType::kFloat32; }

Shape rows_of(const Shape& slot) { return slot - slot[slot.rank() - 1] - slot[slot.rank() - 2]; }

std::vector<OutputInfo> slot_outputs(const Tensors& inputs, const SlotOptions& options) {
  const Tensor& expert = inputs[0];
  if (expert.dtype() != DType::kInt32 || expert.shape().rank() < 2)
    shape_error("assign_slots",
                fmt::format("experts are {} {}", name_of(expert.dtype()), expert.shape().to_string()),
                "int32 [rows.., group, choice]");
  if (options.experts % options.block.size != 0)
    shape_error("assign_slots",
                fmt::format("{} blocks cannot hold {} experts", options.block.size, options.experts));
  if (inputs.size() > 1 && inputs[1].shape() != expert.shape())
    shape_error("assign_slots", fmt::format("priorities are {}, experts {}", inputs[1].shape().to_string(),
                                            expert.shape().to_string()));
  const Shape blocks = Shape{options.block} + rows_of(expert.shape());
  const Dimension offsets{"expert_offsets", options.experts / options.block.size + 1};
  return {{expert.shape(), DType::kInt32},
          {blocks + options.capacity, DType::kInt32},
          {blocks + offsets, DType::kInt32}};
}

/// Throws Error unless the operands have the dimensions of routing.h. `tokens`, `table`: shapes with `vector`.
void check_operands(std::string_view operation, const Shape& tokens, const Shape& table, const Shape& slot,
                    const Shape& taker) {
  const Shape rows = rows_of(slot);
  const Dimension& vector = tokens[tokens.rank() - 1];
  const bool fits = tokens == rows + slot[rows.rank()] + vector && table == taker + vector &&
                    taker == Shape{taker[0]} + rows + taker[taker.rank() - 1];
  if (fits) return;
  shape_error(operation,
              fmt::format("tokens {}, choices {}, slots {} and rows {} do not belong together",
                          tokens.to_string(), slot.to_string(), taker.to_string(), table.to_string()));
}

void check_weights(std::string_view operation, const Tensor& rows, const Tensor& slot,
                   const Tensor& weights) {
  if (weights.shape() == slot.shape() && weights.dtype() == weight_type(rows.dtype())) return;
  shape_error(operation,
              fmt::format("weights are {} {}", name_of(weights.dtype()), weights.shape().to_string()),
              fmt::format("{} {}", name_of(weight_type(rows.dtype())), slot.shape().to_string()));
}

OutputInfo dispatched(const Tensors& in) {
  const Tensor &x = in[0], &slot = in[1], &taker = in[2];
  const Shape table = taker.shape() + x.shape()[x.shape().rank() - 1];
  check_operands("dispatch", x.shape(), table, slot.shape(), taker.shape());
  if (in.size() > 3) check_weights("dispatch", x, slot, in[3]);
  return {table, x.dtype()};
}

OutputInfo combined(const Tensors& in) {
  const Tensor &table = in[0], &slot = in[1], &taker = in[2];
  const Shape& choices = slot.shape();
  const Shape tokens = choices - choices[choices.rank() - 1] + table.shape()[table.shape().rank() - 1];
  check_operands("combine", tokens, table.shape(), choices, taker.shape());
  if (in.size() > 3) check_weights("combine", table, slot, in[3]);
  return {tokens, table.dtype()};
}

OutputInfo multiplied(const Tensors& in) {
  const Tensor &y = in[0], &table = in[1], &slot = in[2], &taker = in[3];
  check_operands("choice_products", y.shape(), table.shape(), slot.shape(), taker.shape());
  if (y.dtype() != table.dtype())
    shape_error("choice_products", fmt::format("{} times {}", name_of(y.dtype()), name_of(table.dtype())));
  return {slot.shape(), weight_type(y.dtype())};
}

AxisMask axes_of(const ShardingRequest& request, const Dimension& dimension) {
  AxisMask mask = 0;
  for (const int axis : request.rules.axes(dimension.name)) mask |= axis_bit(axis);
  return mask;
}

/// Splits operands by name, except that blocks stay whole where they are split over a mesh dimension of the group.
/// `slot`, `taker`: the operands with choices and with blocks.
ShardingRule routing_rule(const Operation& operation, const ShardingRequest& request, const Shape& slot,
                          const Shape& taker) {
  const ShardingRule rule = shard_by_name(operation, request);
  const AxisMask group = axes_of(request, slot[slot.rank() - 2]), block = axes_of(request, taker[0]);
  return (group & block) != 0 ? with_whole_dimension(rule, operation, taker[0].name) : rule;
}

/// The mesh dimensions over which the blocks of input `taker` are split.
AxisMask split_blocks(const ShardingRule& rule, size_t taker) {
  AxisMask mask = 0;
  for (const int axis : rule.inputs[taker].split[0]) mask |= axis_bit(axis);
  return mask;
}

Tensors with(Tensors inputs, const Tensor& weights) {
  if (weights) inputs.push_back(weights);
  return inputs;
}

/// The choices and slots among the inputs of an operation from input `first` on.
Slots slots_of(const Operation& operation, int first) {
  return {operation.input(first), operation.input(first + 1), {}};
}

Tensor weights_of(const Operation& operation) {
  return operation.inputs().size() > 3 ? operation.input(3) : Tensor{};
}

}  // namespace

AssignSlots::AssignSlots(const Tensors& inputs, const SlotOptions& options)
    : OperationBase(inputs, slot_outputs(inputs, options)), options(options) {}

std::string AssignSlots::attributes() const {
  return fmt::format("experts={}, {}={}, {}={}{}", options.experts, options.block.name, options.block.size,
                     options.capacity.name, options.capacity.size,
                     options.one_per_token ? ", one_per_token" : "");
}

ShardingRule AssignSlots::sharding_rule(const ShardingRequest& request) const {
  const Shape& expert = input(0).shape();
  const ShardingRule rule = with_whole_dimension(shard_by_name(*this, request), *this, options.block.name);
  return with_whole_dimension(rule, *this, expert[expert.rank() - 2].name);
}

std::vector<std::string> AssignSlots::unsplittable() const {
  const Shape& expert = input(0).shape();
  return {expert[expert.rank() - 1].name, options.capacity.name, "expert_offsets"};
}

Slots assign_slots(const Tensor& expert, const Tensor& priority, const SlotOptions& options) {
  const auto& operation = expert.graph().add<AssignSlots>(with({expert}, priority), options);
  return {operation.output(0), operation.output(1), operation.output(2)};
}

Dispatch::Dispatch(const Tensors& inputs) : OperationBase(inputs, {dispatched(inputs)}) {}

Tensors Dispatch::gradient(const Tensors& dy) const {
  const Slots slots = slots_of(*this, 1);
  Tensors result{combine(dy[0], slots, weights_of(*this)), {}, {}};
  if (weights_of(*this)) result.push_back(choice_products(input(0), dy[0], slots));
  return result;
}

ShardingRule Dispatch::sharding_rule(const ShardingRequest& request) const {
  const Shape &slot = input(1).shape(), &taker = input(2).shape();
  ShardingRule rule = routing_rule(*this, request, slot, taker);
  rule.outputs[0].partial = axes_of(request, slot[slot.rank() - 2]);
  return rule;
}

Tensor dispatch(const Tensor& x, const Slots& slots, const Tensor& weights) {
  return x.graph().add<Dispatch>(with({x, slots.slot, slots.taker}, weights)).output();
}

Combine::Combine(const Tensors& inputs) : OperationBase(inputs, {combined(inputs)}) {}

Tensors Combine::gradient(const Tensors& dy) const {
  const Slots slots = slots_of(*this, 1);
  Tensors result{dispatch(dy[0], slots, weights_of(*this)), {}, {}};
  if (weights_of(*this)) result.push_back(choice_products(dy[0], input(0), slots));
  return result;
}

ShardingRule Combine::sharding_rule(const ShardingRequest& request) const {
  ShardingRule rule = routing_rule(*this, request, input(1).shape(), input(2).shape());
  rule.outputs[0].partial = split_blocks(rule, 2);
  return rule;
}

Tensor combine(const Tensor& table, const Slots& slots, const Tensor& weights) {
  return table.graph().add<Combine>(with({table, slots.slot, slots.taker}, weights)).output();
}

ChoiceProducts::ChoiceProducts(const Tensors& inputs) : OperationBase(inputs, {multiplied(inputs)}) {}

Tensors ChoiceProducts::gradient(const Tensors& dy) const {
  const Slots slots = slots_of(*this, 2);
  return {combine(input(1), slots, dy[0]), dispatch(input(0), slots, dy[0]), {}, {}};
}

ShardingRule ChoiceProducts::sharding_rule(const ShardingRequest& request) const {
  const Shape& tokens = input(0).shape();
  ShardingRule rule = routing_rule(*this, request, input(2).shape(), input(3).shape());
  rule.outputs[0].partial = split_blocks(rule, 3) | axes_of(request, tokens[tokens.rank() - 1]);
  return rule;
}

Tensor choice_products(const Tensor& y, const Tensor& table, const Slots& slots) {
  return y.graph().add<ChoiceProducts>(Tensors{y, table, slots.slot, slots.taker}).output();
}

}  // namespace mtf
