// The operations of the graph's own structure: inputs, constants, reads and assignments of variables, sums of
// gradient contributions, loops. All other operations are in ops/.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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

/// A tensor whose elements are all `value`.
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

/// Sets a variable. The inputs are the new value and, optionally, the guard. There are no outputs.
class Assign final : public OperationBase<Assign> {
 public:
  Assign(const Variable& variable, const Tensor& value, const Tensor& guard);
  std::string_view name() const override { return "assign"; }
  std::string attributes() const override { return variable->name; }

  const Variable* variable;
};

/// The sum of tensors with the same dimensions and dtype; it is a partial sum if all of them are.
class AddN final : public OperationBase<AddN> {
 public:
  explicit AddN(Tensors terms);
  std::string_view name() const override { return "add_n"; }
  std::optional<ElementwiseStep> elementwise_step() const override;
  Tensors gradient(const Tensors& dy) const override;
  ShardingRule sharding_rule(const ShardingRequest& request) const override;
};
/// Returns the sum of one or more tensors with the same shape.
Tensor add_n(const Tensors& terms);

/// Inside a loop body, the value from the previous iteration (in the first one `initial`).
class LoopValue final : public OperationBase<LoopValue> {
 public:
  explicit LoopValue(const Tensor& initial)
      : OperationBase({initial}, {{initial.shape(), initial.dtype()}}) {}
  std::string_view name() const override { return "loop_value"; }
};

/// The results of a loop body.
struct LoopResult {
  Tensors carried;  ///< new values of the carried tensors, with the same shapes
  Tensors sums;     ///< tensors to sum over the iterations; a sum may stay partial until after the loop
  Tensors placed;   ///< tensors with the smaller microbatch dimension: iteration j gives entries i*count + j
};

/// Runs a block `count` times. The outputs are the final carried values, the sums and the placed tensors, in
/// this order. Operations of the body may use tensors from outside. No gradient passes through a loop.
class Repeat final : public OperationBase<Repeat> {
 public:
  Repeat(int64_t count, Block body, Tensors loop_values, LoopResult result, std::vector<OutputInfo> outputs,
         Microbatching microbatching, Domain sums_domain);
  std::string_view name() const override { return "repeat"; }
  std::string attributes() const override;

  int64_t count;
  Block body;
  Tensors loop_values;  ///< outputs of the LoopValue operations in the body, one for each carried tensor
  LoopResult result;    ///< the tensors of the body that it returns
  Microbatching microbatching;
  /// A sum that is partial over a mesh dimension over which these rules split it is reduced and scattered in
  /// each iteration.
  Domain sums_domain;
};

/// Builds a loop. `build` receives the carried tensors as seen by the body. `microbatching.dimension` may be
/// empty if nothing is placed.
Tensors repeat(Graph& graph, int64_t count, const Tensors& initial, const Microbatching& microbatching,
               const std::function<LoopResult(const Tensors&)>& build,
               Domain sums_domain = Domain::kActivation);

/// Inside a microbatch loop, the part of `x` on which the iteration works; x: [batch=B, ...] ->
/// [batch=B/count, ...]. Entry i is entry i*count + iteration of x, so that a split batch stays local.
class MicrobatchSlice final : public OperationBase<MicrobatchSlice> {
 public:
  MicrobatchSlice(const Tensor& x, const Microbatching& microbatching);
  std::string_view name() const override { return "microbatch_slice"; }
  std::string attributes() const override;

  Microbatching microbatching;
};
Tensor microbatch_slice(const Tensor& x);
/// Returns the tensor of which x is the part of a microbatch; x itself if it is none.
Tensor whole_batch(const Tensor& x);

}  // namespace mtf
