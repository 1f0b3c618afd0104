// The state of lower() (partition.h): the values that tensors have become, and the layouts in which they are known.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "engine/graph/structural.h"
#include "engine/spmd/partition/liveness.h"
#include "engine/spmd/partition/partition.h"
#include "engine/spmd/partition/stages.h"
#include "engine/spmd/partition/transition.h"

namespace mtf {

/// Identifies a value in another layout. The phase is part of the key so that gathered parameters are
/// computed again in each phase and need not stay in memory in between.
using TransitionKey = std::tuple<ValueId, SharedList<std::vector<int>>, AxisMask, std::optional<Pin>, Phase>;
inline TransitionKey transition_key(ValueId id, const Layout& layout, Phase phase) {
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
    return rules(operation.hints().domain, operation.provenance().path());
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

  /// The first chunk at a stage; nothing: none.
  int first_chunk(const std::optional<Pin>& pin) const {
    int chunk = pin ? 0 : Stages::kNone;
    while (pin_of(chunk) != pin) ++chunk;
    return chunk;
  }
  /// The chunk that makes a value, or the view that it is; `otherwise` if none does.
  int chunk_of(ValueId id, int otherwise) const {
    const auto made = chunks_.find(id);
    return made == chunks_.end() ? otherwise : made->second;
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

}  // namespace mtf
