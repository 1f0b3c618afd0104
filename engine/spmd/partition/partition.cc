#include "engine/spmd/partition/partition.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "engine/base/check.h"
#include "engine/graph/structural.h"
#include "engine/spmd/partition/liveness.h"
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
using TransitionKey = std::tuple<ValueId, std::vector<std::vector<int>>, AxisMask, Phase>;

class Partitioner {
 public:
  Partitioner(const Graph& graph, const Layouts& layouts, const PartitionOptions& options)
      : graph_(graph),
        options_(options),
        activation_(layouts.mesh, layouts.activation),
        parameter_(layouts.mesh, layouts.parameter),
        optimizer_(layouts.mesh, layouts.optimizer),
        part_(layouts.part),
        live_(live_operations(graph)) {
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

  void block(const Block& operations);
  void operation(const std::shared_ptr<Operation>& operation);
  void local(const std::shared_ptr<Operation>& operation);
  void view(const std::shared_ptr<Operation>& operation);
  void expand(const Operation& operation);
  void shift(const std::shared_ptr<Operation>& operation, const NeighbourShift& shift);
  void read(const ReadVariable& read);
  void repeat(const Repeat& loop);
  void carry(const std::vector<ValueId>& carried, const Tensors& results, const OperationScope& scope);
  void assign(const Assign& assign);
  void emit_assignments();

  /// The state of `tensor` that layout rules see: the reduced value if it has been reduced before.
  /// Transitions start from the original value, so that each is computed once.
  ValueId current(const Tensor& tensor) const;
  ShardingRequest request(const Operation& operation) const;
  ValueId require(ValueId id, const Layout& layout, const std::shared_ptr<const Operation>& consumer,
                  const OperationScope& scope);
  ValueId transition(ValueId id, const TransitionStep& step, const std::shared_ptr<const Operation>& consumer,
                     const OperationScope& scope);
  std::vector<ValueId> place_inputs(const std::shared_ptr<Operation>& operation, const ShardingRule& rule);
  /// Reduces maxima and minima, brings an output to the layout that the rules prescribe, and registers it as
  /// the tensor's value.
  void settle(const Tensor& tensor, ValueId id, Reduction reduction,
              const std::shared_ptr<Operation>& operation);
  ValueId copied(ValueId id, const OperationScope& scope);
  void emit(Instruction instruction) { block_->push_back(std::move(instruction)); }
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
  OperationSet live_;
  std::vector<Instruction>* block_ = &program_.instructions;
  std::unordered_map<Tensor, ValueId, TensorHash> values_;
  std::map<TransitionKey, ValueId> transitions_;
  std::unordered_set<ValueId> parameters_;  ///< variables at rest and casts of them
  std::vector<Instruction> assignments_;
};

Program Partitioner::run() {
  for (const auto& variable : graph_.variables()) {
    program_.variables.push_back(
        {*variable, rules(domain_of(*variable), variable->name).of(variable->shape), kNoValue});
  }
  program_.operations = graph_.root();
  block(graph_.root());
  std::unordered_set<ValueId> assigned;
  for (const Instruction& assignment : assignments_) assigned.insert(assignment.outputs[0]);
  const OperationScope scope;
  for (const auto& [name, tensor] : graph_.outputs()) {
    ValueId id = current(tensor);
    const bool stays = !options_.partial_outputs.empty() && name.starts_with(options_.partial_outputs);
    if (!stays) id = require(id, value(id).layout.reduced(), nullptr, scope);
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
  } else if (dynamic_cast<const LoopValue*>(operation.get())) {
    return;  // repeat() has made it
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
    const auto reduced = transitions_.find({found->second, v.layout.split, 0, Phase::kForward});
    if (reduced != transitions_.end()) return reduced->second;
  }
  return found->second;
}

ShardingRequest Partitioner::request(const Operation& operation) const {
  ShardingRequest result{rules(operation), {}};
  for (const Tensor& input : operation.inputs()) result.inputs.push_back(value(current(input)).layout);
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

ValueId Partitioner::require(ValueId id, const Layout& layout,
                             const std::shared_ptr<const Operation>& consumer, const OperationScope& scope) {
  const bool gathered_anew = parameters_.contains(id) && !options_.keep_gathered;
  const Phase phase = gathered_anew ? scope.provenance.phase : Phase::kForward;
  ValueId now = id;
  for (const TransitionStep& step : plan_transition(value(id).layout, layout)) {
    ValueId& known =
        transitions_.try_emplace({id, step.result.split, step.result.partial, phase}, kNoValue).first->second;
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
    inputs.push_back(require(values_.at(operation->input(static_cast<int>(i))), rule.inputs[i], operation,
                             operation->scope()));
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
  Layout wanted = rules(*operation).of(tensor.shape());
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
    outputs.push_back(temporary(info.shape, info.dtype, rule.outputs[i], varies));
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
      Value seen{{}, output.shape(), output.dtype(), rule.outputs[i], value(id).varies, {}};
      seen.alias = id;
      id = program_.add_value(std::move(seen));
    }
    settle(output, id, Reduction::kSum, operation);
  }
}

void Partitioner::expand(const Operation& operation) {
  Graph& graph = operation.graph();
  Tensors results;
  const Block expanded = graph.capture(graph.microbatching(), [&] {
    const Graph::Scope inside = graph.with(operation.scope());
    results = operation.expand(operation.inputs(), rules(operation));
  });
  program_.operations.insert(program_.operations.end(), expanded.begin(), expanded.end());
  live_.merge(live_operations(expanded, results));
  block(expanded);
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i]) values_[operation.output(static_cast<int>(i))] = current(results[i]);
  }
}

void Partitioner::shift(const std::shared_ptr<Operation>& operation, const NeighbourShift& shift) {
  const Tensor output = operation->output();
  const int dimension = *output.shape().find(shift.dimension);
  const LayoutMap& map = rules(*operation);
  const ValueId input =
      require(values_.at(operation->input(0)), map.of(output.shape()), operation, operation->scope());
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
  block_ = &made.body;
  block(loop.body);
  int output = static_cast<int>(carried.size());
  for (const Tensor& t : loop.result.sums) {
    ValueId term = values_.at(t);
    Layout wanted = rules(loop.sums_domain).of(t.shape());
    wanted.partial = value(term).layout.partial & ~wanted.split_axes();
    if (value(term).layout.partial & wanted.split_axes()) term = require(term, wanted, nullptr, scope);
    const Value from = value(term);
    const ValueId total = temporary(from.shape, from.dtype, from.layout, from.varies);
    emit(action::Accumulate{}, {term}, {total}, scope);
    values_[loop.output(output++)] = total;
  }
  for (const Tensor& t : loop.result.placed) {
    const Tensor whole = loop.output(output++);
    const ValueId part = require(values_.at(t), activation_.of(t.shape()), nullptr, scope);
    const Layout layout = activation_.of(whole.shape());
    const ValueId placed = temporary(whole.shape(), whole.dtype(), layout, value(part).varies);
    const int dimension = *whole.shape().find(loop.microbatching.dimension);
    emit(action::Place{dimension, loop.count}, {part}, {placed}, scope);
    values_[whole] = placed;
  }
  carry(carried, loop.result.carried, scope);
  block_ = outer;
  transitions_ = saved;
  emit(std::move(made), {}, {}, scope);
  for (size_t i = 0; i < carried.size(); ++i) values_[loop.output(static_cast<int>(i))] = carried[i];
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
  program = split_collectives(std::move(program));
  program = reuse_memory(std::move(program));
  if (options.asynchronous) program = land_collectives(std::move(program), options.flights);
  if (options.group_variables) program = group_casts(group_updates(std::move(program)));
  if (options.stack_products) program = stack_products(std::move(program));
  return program;
}

}  // namespace mtf
