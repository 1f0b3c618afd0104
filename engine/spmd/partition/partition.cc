#include "engine/spmd/partition/partition.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "engine/base/check.h"
#include "engine/graph/structural.h"
#include "engine/spmd/partition/liveness.h"
#include "engine/spmd/partition/stages.h"
#include "engine/spmd/partition/transition.h"
#include "engine/spmd/passes/passes.h"

namespace mtf {

Layouts Layouts::make(Mesh mesh, const LayoutRules& layout, const LayoutRules& parameter_layout,
                      const LayoutRules& optimizer_layout) {
  const LayoutRules parameter = layout.plus(parameter_layout);
  return {std::move(mesh), layout, parameter, parameter.plus(optimizer_layout)};
}

bool ScopeLayouts::holds(std::string_view path) const {
  return path.starts_with(scope) && (path.size() == scope.size() || path[scope.size()] == '/');
}

namespace {

/// Identifies a value in another layout. The phase is part of the key so that gathered parameters are
/// computed again in each phase and need not stay in memory in between.
using TransitionKey = std::tuple<ValueId, std::vector<std::vector<int>>, AxisMask, std::optional<Pin>, Phase>;
TransitionKey transition_key(ValueId id, const Layout& layout, Phase phase) {
  return {id, layout.split, layout.partial, layout.pin, phase};
}

class Partitioner {
 public:
  Partitioner(const Graph& graph, const Layouts& layouts, const PartitionOptions& options)
      : graph_(graph),
        options_(options),
        activation_(layouts.mesh, layouts.activation),
        parameter_(layouts.mesh, layouts.parameter),
        optimizer_(layouts.mesh, layouts.optimizer),
        part_(layouts.part),
        pipeline_(layouts.pipeline),
        live_(live_operations(graph)),
        stages_(graph, layouts, live_) {
    program_.mesh = layouts.mesh;
    if (!part_) return;
    part_activation_.emplace(layouts.mesh, part_->activation);
    part_parameter_.emplace(layouts.mesh, part_->parameter);
  }

  Program run();

 private:
  /// Rules of what stands at `path` in the graph.
  const LayoutMap& rules(Domain domain, std::string_view path) const {
    if (part_ && part_->holds(path) && domain != Domain::kOptimizer)
      return domain == Domain::kActivation ? *part_activation_ : *part_parameter_;
    return rules(domain);
  }
  const LayoutMap& rules(const Operation& operation) const {
    return rules(operation.hints().domain, operation.provenance().path);
  }
  const LayoutMap& rules(Domain domain) const {
    return domain == Domain::kActivation  ? activation_
           : domain == Domain::kParameter ? parameter_
                                          : optimizer_;
  }
  const Value& value(ValueId id) const { return program_.values[id]; }
  std::optional<Pin> pin_of(int chunk) const {
    return chunk == Stages::kNone ? std::nullopt : std::optional(pipeline_->pin(program_.mesh, chunk));
  }

  void block(const Block& operations);
  void operation(const std::shared_ptr<Operation>& operation);
  void local(const std::shared_ptr<Operation>& operation);
  void view(const std::shared_ptr<Operation>& operation);
  void expand(const Operation& operation);
  Tensors captured(const Operation& origin, const std::function<Tensors()>& build);
  bool add_by_stage(const Operation& sum);
  Tensors sums_of_stages(const Operation& sum);
  void shift(const std::shared_ptr<Operation>& operation, const NeighbourShift& shift);
  void read(const ReadVariable& read);
  void repeat(const Repeat& loop);
  ValueId accumulated(const Tensor& term, const Repeat& loop);
  void find_sums_by_stage(const Repeat& loop);
  void carry(const std::vector<ValueId>& carried, const Tensors& results, const OperationScope& scope);
  void assign(const Assign& assign);
  void emit_assignments();

  /// The state of `tensor` that layout rules see: the reduced value if it has been reduced before.
  /// Transitions start from the original value, so that each is computed once.
  ValueId current(const Tensor& tensor) const;
  ShardingRequest request(const Operation& operation) const;
  ValueId require(ValueId id, const Layout& layout, const std::shared_ptr<const Operation>& consumer,
                  const OperationScope& scope);
  ValueId laid_out(ValueId id, const Layout& layout, const std::shared_ptr<const Operation>& consumer,
                   const OperationScope& scope);
  ValueId sent(ValueId id, std::optional<Pin> pin, const std::shared_ptr<const Operation>& consumer,
               const OperationScope& scope);
  ValueId transition(ValueId id, const TransitionStep& step, const std::shared_ptr<const Operation>& consumer,
                     const OperationScope& scope);
  std::vector<ValueId> place_inputs(const std::shared_ptr<Operation>& operation, const ShardingRule& rule);
  /// Reduces maxima and minima, brings an output to the layout that the rules prescribe, and registers it as
  /// the tensor's value.
  void settle(const Tensor& tensor, ValueId id, Reduction reduction,
              const std::shared_ptr<Operation>& operation);
  ValueId copied(ValueId id, const OperationScope& scope);
  void emit(Instruction instruction) {
    instruction.provenance.chunk = chunk_;
    for (ValueId id : instruction.outputs) chunks_[id] = chunk_;
    block_->push_back(std::move(instruction));
  }
  void emit(Action action, std::vector<ValueId> inputs, std::vector<ValueId> outputs,
            const OperationScope& scope) {
    emit({std::move(action), std::move(inputs), std::move(outputs), kNoValue, scope.provenance,
          scope.hints.layer});
  }
  ValueId temporary(const Shape& shape, DType dtype, Layout layout, AxisMask varies);

  const Graph& graph_;
  const PartitionOptions options_;
  Program program_;
  LayoutMap activation_, parameter_, optimizer_;
  const std::optional<ScopeLayouts> part_;
  std::optional<LayoutMap> part_activation_, part_parameter_;
  const std::optional<Pipeline> pipeline_;
  OperationSet live_;
  Stages stages_;
  int chunk_ = Stages::kNone;                ///< in which instructions are emitted
  std::optional<int> within_;                ///< the chunk of the operation that is being expanded
  std::unordered_map<ValueId, int> chunks_;  ///< the chunk that makes each value
  /// Sums over the microbatches of a loop that are added up at each stage until it ends, with the sum of each stage.
  std::unordered_map<Tensor, Tensors, TensorHash> sums_by_stage_;
  std::vector<Instruction>* block_ = &program_.instructions;
  std::unordered_map<Tensor, ValueId, TensorHash> values_;
  std::map<TransitionKey, ValueId> transitions_;
  std::unordered_set<ValueId> parameters_;  ///< variables at rest and casts of them
  std::vector<Instruction> assignments_;
};

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
  const int chunk = chunk_;
  if (const auto made = chunks_.find(id); made != chunks_.end()) chunk_ = made->second;
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

/// Adds up the terms of each stage there, so that only sums are sent. False if all terms are here, or each on a stage of its
/// own.
bool Partitioner::add_by_stage(const Operation& sum) {
  if (!pipeline_) return false;
  std::set<std::optional<Pin>> stages;
  for (const Tensor& term : sum.inputs()) stages.insert(value(values_.at(term)).layout.pin);
  const bool is_here = stages.size() == 1 && *stages.begin() == pin_of(chunk_);
  if (is_here || stages.size() == sum.inputs().size()) return false;
  const Tensors sums = sums_of_stages(sum);
  values_[sum.output()] = values_.at(captured(sum, [&] { return Tensors{add_n(sums)}; })[0]);
  return true;
}

/// The sum of the terms of each stage, in the chunk that makes the last of them.
Tensors Partitioner::sums_of_stages(const Operation& sum) {
  std::map<std::optional<Pin>, Tensors> stages;
  for (const Tensor& term : sum.inputs()) stages[value(values_.at(term)).layout.pin].push_back(term);
  const int chunk = chunk_;
  Tensors sums;
  for (const auto& [pin, terms] : stages) {
    std::set<int> chunks;
    for (const Tensor& term : terms) {
      const auto made = chunks_.find(values_.at(term));
      chunks.insert(made == chunks_.end() ? Stages::kNone : made->second);
    }
    chunk_ = sum.provenance().phase == Phase::kBackward ? *chunks.begin() : *chunks.rbegin();
    sums.push_back(terms.size() == 1 ? terms[0] : captured(sum, [&] { return Tensors{add_n(terms)}; })[0]);
  }
  chunk_ = chunk;
  return sums;
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

void Partitioner::repeat(const Repeat& loop) {
  const OperationScope& scope = loop.scope();
  std::vector<ValueId> carried;
  for (const Tensor& t : loop.loop_values) {
    const Layout layout = activation_.of(t.shape());
    const ValueId initial = require(values_.at(t.operation().input(0)), layout, nullptr, scope);
    carried.push_back(temporary(t.shape(), t.dtype(), layout, layout.varies()));
    emit(action::Copy{}, {initial}, {carried.back()}, scope);
    values_[t] = carried.back();
  }
  action::Loop made{loop.count, {}};
  std::vector<Instruction>* outer = block_;
  const std::map<TransitionKey, ValueId> saved = transitions_;
  find_sums_by_stage(loop);
  block_ = &made.body;
  block(loop.body);
  int output = static_cast<int>(carried.size());
  std::unordered_map<Tensor, ValueId, TensorHash> totals;
  for (const Tensor& t : loop.result.sums) {
    const auto by_stage = sums_by_stage_.find(t);
    if (by_stage == sums_by_stage_.end()) {
      values_[loop.output(output)] = accumulated(t, loop);
    } else {
      by_stage->second = sums_of_stages(t.operation());
      for (const Tensor& sum : by_stage->second) totals[sum] = accumulated(sum, loop);
    }
    ++output;
  }
  for (const Tensor& t : loop.result.placed) {
    const Tensor whole = loop.output(output++);
    const std::optional<Pin> pin = value(values_.at(t)).layout.pin;
    chunk_ = stages_.of(t);
    const ValueId part = require(values_.at(t), activation_.of(t.shape()).at(pin), nullptr, scope);
    const Layout layout = activation_.of(whole.shape()).at(pin);
    const ValueId placed = temporary(whole.shape(), whole.dtype(), layout, value(part).varies);
    const int dimension = *whole.shape().find(loop.microbatching.dimension);
    emit(action::Place{dimension, loop.count}, {part}, {placed}, scope);
    values_[whole] = placed;
  }
  chunk_ = Stages::kNone;
  carry(carried, loop.result.carried, scope);
  block_ = outer;
  transitions_ = saved;
  emit(std::move(made), {}, {}, scope);
  for (size_t i = 0; i < carried.size(); ++i) values_[loop.output(static_cast<int>(i))] = carried[i];
  for (size_t i = 0; i < loop.result.sums.size(); ++i) {
    const Tensor& t = loop.result.sums[i];
    const auto by_stage = sums_by_stage_.find(t);
    if (by_stage == sums_by_stage_.end()) continue;
    for (const Tensor& sum : by_stage->second) values_[sum] = totals.at(sum);
    chunk_ = stages_.of(t);
    const Tensors sum = captured(t.operation(), [&] { return Tensors{add_n(by_stage->second)}; });
    values_[loop.output(static_cast<int>(carried.size() + i))] = values_.at(sum[0]);
  }
}

/// The sum of `term` over the iterations of the loop.
ValueId Partitioner::accumulated(const Tensor& tensor, const Repeat& loop) {
  ValueId term = values_.at(tensor);
  if (const auto made = chunks_.find(term); made != chunks_.end()) chunk_ = made->second;
  Layout wanted = rules(loop.sums_domain).of(tensor.shape()).at(value(term).layout.pin);
  wanted.partial = value(term).layout.partial & ~wanted.split_axes();
  if (value(term).layout.partial & wanted.split_axes()) term = require(term, wanted, nullptr, loop.scope());
  const Value from = value(term);
  const ValueId total = temporary(from.shape, from.dtype, from.layout, from.varies);
  emit(action::Accumulate{}, {term}, {total}, loop.scope());
  return total;
}

/// A sum over the microbatches whose terms are made at several stages (the gradient of a table that they share) is added
/// up at each of them; only the totals are sent.
void Partitioner::find_sums_by_stage(const Repeat& loop) {
  if (!pipeline_) return;
  std::unordered_set<Tensor, TensorHash> used(loop.result.placed.begin(), loop.result.placed.end());
  used.insert(loop.result.carried.begin(), loop.result.carried.end());
  for (const auto& operation : loop.body) used.insert(operation->inputs().begin(), operation->inputs().end());
  for (const Tensor& sum : loop.result.sums) {
    if (dynamic_cast<const AddN*>(&sum.operation()) == nullptr || used.contains(sum)) continue;
    const Tensors& terms = sum.operation().inputs();
    const auto stage = [this](const Tensor& term) { return pin_of(stages_.of(term)); };
    const bool is_alike =
        std::ranges::all_of(terms, [&](const Tensor& term) { return stage(term) == stage(terms.front()); });
    if (!is_alike) sums_by_stage_[sum];
  }
}

void Partitioner::carry(const std::vector<ValueId>& carried, const Tensors& results,
                        const OperationScope& scope) {
  std::vector<ValueId> next;
  for (size_t i = 0; i < carried.size(); ++i) {
    const Value target = value(carried[i]);
    ValueId id = require(values_.at(results[i]), target.layout, nullptr, scope);
    for (ValueId other : carried) {
      // A result that is itself a carried value must be read before that value is overwritten.
      if (program_.root(id) != other || other == carried[i]) continue;
      id = copied(id, scope);
      break;
    }
    next.push_back(id);
  }
  for (size_t i = 0; i < carried.size(); ++i) {
    if (next[i] != carried[i]) emit(action::Copy{}, {next[i]}, {carried[i]}, scope);
  }
}

}  // namespace

Program lower(const Graph& graph, const Layouts& layouts, const PartitionOptions& options) {
  return Partitioner(graph, layouts, options).run();
}

Program partition(const Graph& graph, const Layouts& layouts, const PartitionOptions& options) {
  Program program = lower(graph, layouts, options);
  if (layouts.pipeline) program = hoist_sends(std::move(program));
  program = share_operations(std::move(program));
  program = share_exchanges(std::move(program));
  program = fuse_norms(std::move(program), options.fuse_norm_parameters);
  program = fuse_reduce_scatter(std::move(program));
  program = start_reductions_early(std::move(program));
  program = schedule_gathers(std::move(program), options.gather_ahead);
  program = bucket_reductions(std::move(program), kBucketBytes);
  program = group_segments(std::move(program));
  if (options.fuse_epilogues) program = fuse_epilogues(std::move(program));
  if (options.fuse_elementwise) program = fuse_elementwise(std::move(program));
  if (layouts.pipeline) program = pipeline_loops(std::move(program), *layouts.pipeline);
  program = split_collectives(std::move(program));
  program = reuse_memory(std::move(program));
  if (options.asynchronous) program = land_collectives(std::move(program), options.flights);
  if (options.group_variables) program = group_casts(group_updates(std::move(program)));
  if (options.stack_products) program = stack_products(std::move(program));
  return program;
}

}  // namespace mtf
