#include "engine/spmd/partition/partitioner.h"

#include <algorithm>

#include "engine/base/check.h"

namespace mtf {

Program Partitioner::run() {
  for (const auto& variable : graph_.variables()) {
    const Layout layout = rules(domain_of(*variable), variable->name).of(variable->shape);
    program_.variables.push_back({*variable, layout.at(pin_of(stages_.of(*variable))), kNoValue});
  }
  program_.operations = graph_.root();
  block(graph_.root());
  std::unordered_set<ValueId> assigned;
  for (const Instruction& assignment : assignments_) assigned.insert(assignment.outputs[0]);
  const OperationScope scope;
  for (const auto& [name, tensor] : graph_.outputs()) {
    ValueId id = current(tensor);
    const bool stays = !options_.partial_outputs.empty() && name.starts_with(options_.partial_outputs);
    if (!stays) id = require(id, value(id).layout.reduced().at({}), nullptr, scope);
    // An output shows a variable's value before the updates of the step.
    program_.outputs.emplace_back(name, assigned.contains(program_.root(id)) ? copied(id, scope) : id);
  }
  emit_assignments();
  return std::move(program_);
}

void Partitioner::block(const Block& operations) {
  for (const auto& operation : operations) {
    if (live_.contains(operation.get())) this->operation(operation);
  }
}

void Partitioner::operation(const std::shared_ptr<Operation>& operation) {
  chunk_ = within_.value_or(stages_.of(*operation));
  if (const auto* input = dynamic_cast<const Input*>(operation.get())) {
    Value value{input->input_name, input->outputs()[0].shape, input->outputs()[0].dtype, {}, 0, {}};
    value.layout = activation_.of(value.shape);
    value.varies = value.layout.varies();
    value.storage = Value::Storage::kInput;
    value.index = static_cast<int>(program_.inputs.size());
    const ValueId id = program_.add_value(std::move(value));
    program_.inputs.emplace_back(input->input_name, id);
    values_[operation->output()] = id;
  } else if (const auto* variable = dynamic_cast<const ReadVariable*>(operation.get())) {
    read(*variable);
  } else if (const auto* assignment = dynamic_cast<const Assign*>(operation.get())) {
    assign(*assignment);
  } else if (const auto* loop = dynamic_cast<const Repeat*>(operation.get())) {
    repeat(*loop);
  } else if (dynamic_cast<const LoopValue*>(operation.get()) ||
             sums_by_stage_.contains(operation->output())) {
    return;  // repeat() has made it, or makes it
  } else if (dynamic_cast<const AddN*>(operation.get()) && add_by_stage(*operation)) {
    return;
  } else if (operation->is_view()) {
    view(operation);
  } else if (const std::optional<NeighbourShift> moved = operation->neighbour_shift();
             moved && rules(*operation).splits(moved->dimension)) {
    shift(operation, *moved);
  } else if (operation->needs_expansion(request(*operation))) {
    expand(*operation);
  } else {
    local(operation);
  }
}

ValueId Partitioner::current(const Tensor& tensor) const {
  const auto found = values_.find(tensor);
  MTF_CHECK(found != values_.end(), "{} has not been partitioned", tensor.operation().name());
  const Value& v = value(found->second);
  if (v.layout.partial) {
    const auto reduced =
        transitions_.find(transition_key(found->second, v.layout.reduced(), Phase::kForward));
    if (reduced != transitions_.end()) return reduced->second;
  }
  return found->second;
}

ShardingRequest Partitioner::request(const Operation& operation) const {
  ShardingRequest result{rules(operation), {}};
  for (const Tensor& input : operation.inputs()) result.inputs.push_back(value(current(input)).layout.at({}));
  return result;
}

ValueId Partitioner::temporary(const Shape& shape, DType dtype, Layout layout, AxisMask varies) {
  return program_.add_value(Value{{}, shape, dtype, std::move(layout), varies, {}});
}

ValueId Partitioner::copied(ValueId id, const OperationScope& scope) {
  const Value from = value(id);
  const ValueId copy = temporary(from.shape, from.dtype, from.layout, from.varies);
  emit(action::Copy{}, {id}, {copy}, scope);
  return copy;
}

/// What all positions have is also at each stage. What another stage has is sent, sums as far as they are wanted complete.
ValueId Partitioner::require(ValueId id, const Layout& layout,
                             const std::shared_ptr<const Operation>& consumer, const OperationScope& scope) {
  const Layout from = value(id).layout;
  if (!from.pin || from.pin == layout.pin) return laid_out(id, layout.at(from.pin), consumer, scope);
  const int chunk = std::exchange(chunk_, chunk_of(id, chunk_));
  const ValueId whole =
      laid_out(id, Layout{from.split, from.partial & layout.partial, from.pin}, consumer, scope);
  const ValueId there = sent(whole, layout.pin, consumer, scope);
  chunk_ = chunk;
  return laid_out(there, layout, consumer, scope);
}

ValueId Partitioner::sent(ValueId id, std::optional<Pin> pin,
                          const std::shared_ptr<const Operation>& consumer, const OperationScope& scope) {
  const Value from = value(id);
  ValueId& known =
      transitions_.try_emplace(transition_key(id, from.layout.at(pin), Phase::kForward), kNoValue)
          .first->second;
  if (known != kNoValue) return known;
  known = temporary(from.shape, from.dtype, from.layout.at(pin), from.varies);
  if (parameters_.contains(id)) parameters_.insert(known);
  const action::Send send{pin ? std::optional(pin->coordinate) : std::nullopt};
  emit(action::Communicate{send, axis_bit(from.layout.pin->axis), consumer}, {id}, {known}, scope);
  return known;
}

ValueId Partitioner::laid_out(ValueId id, const Layout& layout,
                              const std::shared_ptr<const Operation>& consumer, const OperationScope& scope) {
  const bool gathered_anew = parameters_.contains(id) && !options_.keep_gathered;
  const Phase phase = gathered_anew ? scope.provenance.phase : Phase::kForward;
  ValueId now = id;
  for (const TransitionStep& step : plan_transition(value(id).layout, layout)) {
    ValueId& known = transitions_.try_emplace(transition_key(id, step.result, phase), kNoValue).first->second;
    if (known == kNoValue) known = transition(now, step, consumer, scope);
    now = known;
  }
  return now;
}

ValueId Partitioner::transition(ValueId id, const TransitionStep& step,
                                const std::shared_ptr<const Operation>& consumer,
                                const OperationScope& scope) {
  const Value from = value(id);
  AxisMask varies = from.varies;
  Action action = step.action;
  if (const auto* slice = std::get_if<action::Slice>(&action)) varies |= slice->axes;
  if (auto* communicate = std::get_if<action::Communicate>(&action)) {
    communicate->required_by = consumer;
    // The parts of an all-to-all are different on all coordinates before and after it.
    if (!std::holds_alternative<action::AllToAll>(communicate->collective)) varies &= ~communicate->axes;
  }
  const ValueId to = temporary(from.shape, from.dtype, step.result, varies);
  emit(std::move(action), {id}, {to}, scope);
  return to;
}

std::vector<ValueId> Partitioner::place_inputs(const std::shared_ptr<Operation>& operation,
                                               const ShardingRule& rule) {
  std::vector<ValueId> inputs;
  for (size_t i = 0; i < rule.inputs.size(); ++i) {
    inputs.push_back(require(values_.at(operation->input(static_cast<int>(i))),
                             rule.inputs[i].at(pin_of(chunk_)), operation, operation->scope()));
  }
  return inputs;
}

void Partitioner::settle(const Tensor& tensor, ValueId id, Reduction reduction,
                         const std::shared_ptr<Operation>& operation) {
  if (reduction != Reduction::kSum && value(id).layout.partial) {
    const Value from = value(id);
    const ValueId reduced =
        temporary(from.shape, from.dtype, from.layout.reduced(), from.varies & ~from.layout.partial);
    emit(action::Communicate{action::AllReduce{reduction}, from.layout.partial, operation}, {id}, {reduced},
         operation->scope());
    id = reduced;
  }
  Layout wanted = rules(*operation).of(tensor.shape()).at(value(id).layout.pin);
  if (wanted.split != value(id).layout.split) {
    wanted.partial = value(id).layout.partial & ~wanted.split_axes();
    id = require(id, wanted, operation, operation->scope());
  }
  values_[tensor] = id;
}

void Partitioner::local(const std::shared_ptr<Operation>& operation) {
  const ShardingRule rule = operation->sharding_rule(request(*operation));
  const std::vector<ValueId> inputs = place_inputs(operation, rule);
  AxisMask varies = 0;
  for (ValueId id : inputs) varies |= value(id).varies;
  for (const Layout& layout : rule.outputs) varies |= layout.varies();
  std::vector<ValueId> outputs;
  for (size_t i = 0; i < operation->outputs().size(); ++i) {
    const OutputInfo& info = operation->outputs()[i];
    outputs.push_back(temporary(info.shape, info.dtype, rule.outputs[i].at(pin_of(chunk_)), varies));
  }
  emit(action::Run{operation}, inputs, outputs, operation->scope());
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (operation->hints().domain == Domain::kParameter) parameters_.insert(outputs[i]);
    settle(operation->output(static_cast<int>(i)), outputs[i], rule.reduction, operation);
  }
}

void Partitioner::view(const std::shared_ptr<Operation>& operation) {
  const ShardingRule rule = operation->sharding_rule(request(*operation));
  const std::vector<ValueId> inputs = place_inputs(operation, rule);
  for (size_t i = 0; i < operation->outputs().size(); ++i) {
    const Tensor output = operation->output(static_cast<int>(i));
    ValueId id = inputs[i];
    if (value(id).shape != output.shape()) {
      Value seen{
          {}, output.shape(), output.dtype(), rule.outputs[i].at(value(id).layout.pin), value(id).varies, {}};
      seen.alias = id;
      id = program_.add_value(std::move(seen));
      chunks_[id] = chunk_;
    }
    settle(output, id, Reduction::kSum, operation);
  }
}

void Partitioner::expand(const Operation& operation) {
  const Tensors results =
      captured(operation, [&] { return operation.expand(operation.inputs(), rules(operation)); });
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i]) values_[operation.output(static_cast<int>(i))] = current(results[i]);
  }
}

/// Runs what `build` adds to the graph in place of an operation, in the same chunk.
Tensors Partitioner::captured(const Operation& origin, const std::function<Tensors()>& build) {
  Graph& graph = origin.graph();
  Tensors results;
  const Block added = graph.capture(graph.microbatching(), [&] {
    const Graph::Scope inside = graph.with(origin.scope());
    results = build();
  });
  program_.operations.insert(program_.operations.end(), added.begin(), added.end());
  live_.merge(live_operations(added, results));
  const std::optional<int> outer = std::exchange(within_, chunk_);
  block(added);
  within_ = outer;
  return results;
}

void Partitioner::shift(const std::shared_ptr<Operation>& operation, const NeighbourShift& shift) {
  const Tensor output = operation->output();
  const int dimension = *output.shape().find(shift.dimension);
  const LayoutMap& map = rules(*operation);
  const ValueId input = require(values_.at(operation->input(0)), map.of(output.shape()).at(pin_of(chunk_)),
                                operation, operation->scope());
  const Value from = value(input);
  const ValueId moved = temporary(from.shape, from.dtype, from.layout, from.varies);
  AxisMask axes = 0;
  for (int axis : from.layout.split[dimension]) axes |= axis_bit(axis);
  emit(action::Communicate{action::Exchange{dimension, shift.offset, shift.wrap}, axes, operation}, {input},
       {moved}, operation->scope());
  values_[output] = moved;
}

void Partitioner::read(const ReadVariable& read) {
  ProgramVariable& variable = program_.variables[read.variable->index];
  if (variable.value == kNoValue) {
    Value value{variable.variable.name, variable.variable.shape,  variable.variable.dtype,
                variable.layout,        variable.layout.varies(), {}};
    value.storage = Value::Storage::kVariable;
    value.index = read.variable->index;
    variable.value = program_.add_value(std::move(value));
    parameters_.insert(variable.value);
  }
  values_[read.output()] = variable.value;
}

void Partitioner::assign(const Assign& assign) {
  read(ReadVariable(*assign.variable));
  const ProgramVariable& variable = program_.variables[assign.variable->index];
  const OperationScope& scope = assign.scope();
  const ValueId value = require(values_.at(assign.input(0)), variable.layout, nullptr, scope);
  Instruction copy{action::Copy{}, {value}, {variable.value}, kNoValue, scope.provenance, scope.hints.layer};
  if (assign.inputs().size() > 1) {
    const ValueId guard = values_.at(assign.input(1));
    copy.guard = require(guard, Layout::replicated(0), nullptr, scope);
  }
  assignments_.push_back(std::move(copy));
}

/// Assignments read variables as they were before the step. Those that copy a variable therefore come first,
/// and a variable that one of them overwrites before another reads it is saved.
void Partitioner::emit_assignments() {
  std::stable_partition(assignments_.begin(), assignments_.end(), [this](const Instruction& assignment) {
    return value(program_.root(assignment.inputs[0])).storage == Value::Storage::kVariable;
  });
  std::unordered_set<ValueId> written;
  for (Instruction& assignment : assignments_) {
    ValueId& id = assignment.inputs[0];
    if (written.contains(program_.root(id)))
      id = copied(id, {assignment.provenance, {.layer = assignment.layer}});
    written.insert(assignment.outputs[0]);
  }
  for (Instruction& assignment : assignments_) emit(std::move(assignment));
}

}  // namespace mtf
