// The operations that the graph itself is made of: inputs, constants, reading and assigning variables, the
// sum of gradient contributions, loops. Everything else is in ops/.
#pragma once

#include <functional>
#include <string>

#include "engine/graph/graph.h"

namespace mtf {

class Input final : public OperationBase<Input> {
 public:
  Input(std::string name, const Shape& shape, DType dtype)
      : OperationBase({}, {{shape, dtype}}), input_name(std::move(name)) {}
  std::string_view name() const override { return "input"; }
  std::string attributes() const override { return input_name; }

  std::string input_name;
};

/// Every element is `value`.
class Constant final : public OperationBase<Constant> {
 public:
  Constant(double value, DType dtype, const Shape& shape)
      : OperationBase({}, {{shape, dtype}}), value(value) {}
  std::string_view name() const override { return "constant"; }
  std::optional<ElementwiseStep> elementwise_step() const override {
    return ElementwiseStep{ElementwiseStep::Kind::kConstant, 0, value};
  }
  std::string attributes() const override;

  double value;
};

class ReadVariable final : public OperationBase<ReadVariable> {
 public:
  explicit ReadVariable(const Variable& variable)
      : OperationBase({}, {{variable.shape, variable.dtype}}), variable(&variable) {}
  std::string_view name() const override { return "variable"; }
  std::string attributes() const override { return variable->name; }

  const Variable* variable;
};

/// Inputs: the new value, and the guard if there is one. No outputs.
class Assign final : public OperationBase<Assign> {
 public:
  Assign(const Variable& variable, const Tensor& value, const Tensor& guard);
  std::string_view name() const override { return "assign"; }
  std::string attributes() const override { return variable->name; }

  const Variable* variable;
};

/// Sum of tensors with the same dimensions and dtype; stays a partial sum where all of them are.
class AddN final : public OperationBase<AddN> {
 public:
  explicit AddN(Tensors terms);
  std::string_view name() const override { return "add_n"; }
  std::optional<ElementwiseStep> elementwise_step() const override;
  Tensors gradient(const Tensors& dy) const override;
  ShardingRule sharding_rule(const ShardingRequest& request) const override;
};
/// The sum of one or more tensors with the same shape.
Tensor add_n(const Tensors& terms);

/// Inside a loop body: the value that the previous iteration left (initially `initial`).
class LoopValue final : public OperationBase<LoopValue> {
 public:
  explicit LoopValue(const Tensor& initial)
      : OperationBase({initial}, {{initial.shape(), initial.dtype()}}) {}
  std::string_view name() const override { return "loop_value"; }
};

/// What a loop body returns.
struct LoopResult {
  Tensors carried;  ///< new values of the carried tensors, same shapes
  Tensors sums;     ///< summed over the iterations; may stay partial until after the loop
  Tensors placed;  ///< tensors with the smaller microbatch dimension: iteration j becomes entries i*count + j
};

/// `count` iterations of a block. Outputs: final carried values, sums, placed tensors, in this order.
/// Operations of the body may use tensors from outside. No gradient passes through.
class Repeat final : public OperationBase<Repeat> {
 public:
  Repeat(int64_t count, Block body, Tensors loop_values, LoopResult result, std::vector<OutputInfo> outputs,
         Microbatching microbatching, Domain sums_domain);
  std::string_view name() const override { return "repeat"; }
  std::string attributes() const override;

  int64_t count;
  Block body;
  Tensors loop_values;  ///< LoopValue outputs in the body, one for each carried tensor
  LoopResult result;    ///< tensors of the body
  Microbatching microbatching;
  Domain sums_domain;  ///< where these rules split a sum over a mesh dimension that it is partial over, it is
                       ///< scattered inside
};

/// Builds a loop. `build` receives the carried tensors as the body sees them. `microbatching.dimension` may
/// be empty when nothing is placed.
Tensors repeat(Graph& graph, int64_t count, const Tensors& initial, const Microbatching& microbatching,
               const std::function<LoopResult(const Tensors&)>& build,
               Domain sums_domain = Domain::kActivation);

/// Inside a microbatch loop: the part of `x` that this iteration works on; x: [batch=B, ...] ->
/// [batch=B/count, ...], entry i is x's entry i*count + iteration, so that a split batch stays local.
class MicrobatchSlice final : public OperationBase<MicrobatchSlice> {
 public:
  MicrobatchSlice(const Tensor& x, const Microbatching& microbatching);
  std::string_view name() const override { return "microbatch_slice"; }
  std::string attributes() const override;

  Microbatching microbatching;
};
Tensor microbatch_slice(const Tensor& x);

}  // namespace mtf
