// Operation is one node of the graph. Its class holds everything about it: output shapes, gradient (as graph
// operations), sharding rule, cost. Its kernels are in backend/*/ under the same name.
//
//   class Negative final : public OperationBase<Negative> {
//    public:
//     explicit Negative(const Tensor& x) : OperationBase({x}, {{x.shape(), x.dtype()}}) {}
//     std::string_view name() const override { return "negative"; }
//     Tensors gradient(const Tensors& dy) const override { return {negative(dy[0])}; }
//   };
//   Tensor negative(const Tensor& x) { return x.graph().add<Negative>(x).output(); }
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/error.h"
#include "engine/graph/sharding_rule.h"
#include "engine/graph/tensor.h"

namespace mtf {

struct OutputInfo {
  Shape shape;
  DType dtype = DType::kFloat32;
};

/// Selects the rules that lay out a tensor: `layout`, `parameter_layout` (variables between steps) or
/// `optimizer_layout` (slots, updates).
enum class Domain { kActivation, kParameter, kOptimizer };
enum class Phase { kForward, kBackward, kUpdate };

/// A named scope of the graph, which the operations in it share; by default the graph outside of all scopes.
class NamedScope {
 public:
  NamedScope() = default;
  NamedScope(std::string path, Mark mark)
      : named_(std::make_shared<const Named>(Named{std::move(path), std::move(mark)})) {}

  /// The scope path, such as "decoder/block_000/layer_001"; empty outside of all scopes.
  const std::string& path() const { return named().path; }
  /// The place of the layer in the configuration.
  const Mark& mark() const { return named().mark; }

 private:
  struct Named {
    std::string path;
    Mark mark;
  };
  const Named& named() const {
    static const Named none;
    return named_ ? *named_ : none;
  }

  std::shared_ptr<const Named> named_;  ///< null: outside of all scopes
};

/// The origin of an operation.
struct Provenance {
  NamedScope scope = {};
  Phase phase = Phase::kForward;
  bool recomputed = false;  ///< repeats a computation of the forward pass
  int chunk = -1;           ///< chunk of a pipeline, which the partitioner finds (Stages); -1: none

  const std::string& path() const { return scope.path(); }
};

/// What the partitioner is told about an operation.
struct PartitionHints {
  Domain domain = Domain::kActivation;
  int layer = -1;  ///< number of the outermost layer; gathers of parameters are scheduled by it
  int unit = -1;   ///< index into Graph::units(); -1: in none
};

/// What an operation takes over from the scope in which it is created.
struct OperationScope {
  Provenance provenance;
  PartitionHints hints;
};

/// The work on one mesh position.
struct Cost {
  double flops = 0;  ///< only contractions are counted: 2 per multiply-add
  double bytes = 0;  ///< bytes read and written
};

/// An operation whose result's elements depend on one element of each operand alone, as a step of a fused kernel
/// (engine/ops/fused_elementwise.h).
struct ElementwiseStep {
  enum class Kind {
    kUnary,          ///< a UnaryFunction
    kUnaryGradient,  ///< the gradient of a UnaryFunction
    kBinary,         ///< a BinaryFunction
    kWhere,
    kCast,
    kDropout,
    kSum,       ///< all operands, added in their order
    kCopy,      ///< the operand, which the kernel repeats where it loads it
    kConstant,  ///< the parameter
  };
  Kind kind = Kind::kCopy;
  int function = 0;
  std::optional<double> parameter = {};
};

/// The result is the input moved along a dimension: between neighbours, where that is split.
struct NeighbourShift {
  std::string dimension;
  int64_t offset = 0;
  bool wrap = false;
};

class Operation {
 public:
  Operation(Tensors inputs, std::vector<OutputInfo> outputs)
      : inputs_(std::move(inputs)), outputs_(std::move(outputs)) {}
  virtual ~Operation() = default;

  /// Returns the name of the operation, under which its kernels are registered: a literal.
  virtual std::string_view name() const = 0;
  /// Returns the attributes as programs print them, such as "dimension=hidden, begin=2"; may be empty.
  virtual std::string attributes() const { return {}; }
  /// Returns a copy with the same attributes; the graph then sets its inputs.
  virtual std::unique_ptr<Operation> clone() const = 0;

  /// Returns the gradients with respect to the inputs (null: an input without gradient), given those with
  /// respect to the outputs (null: zero). By default no input has a gradient.
  virtual Tensors gradient(const Tensors& dy) const;

  /// Returns the layouts of the inputs and outputs. The default is shard_by_name().
  virtual ShardingRule sharding_rule(const ShardingRequest& request) const;
  /// Returns the names of dimensions that no layout may split here (docs/architecture.md "Illegal layouts").
  virtual std::vector<std::string> unsplittable() const { return {}; }
  /// Returns dimensions that must not be split over the same mesh dimension although no single operand has
  /// them all. The default is empty.
  virtual Shape joint_shape() const { return {}; }
  /// True if the operation cannot run on slices under these layouts; the partitioner then uses expand().
  virtual bool needs_expansion(const ShardingRequest&) const { return false; }
  /// Computes the same function of `inputs` by operations that can run on slices, with collectives between
  /// them.
  virtual Tensors expand(const Tensors& inputs, const LayoutMap& rules) const;

  /// Returns the work for these local shapes. The default counts the bytes of all operands.
  virtual Cost cost(const std::vector<Shape>& inputs, const std::vector<Shape>& outputs) const;
  /// True if the output consists of the input's bytes under another shape or name, so that no instruction
  /// runs (identity, reshape).
  virtual bool is_view() const { return false; }
  /// Returns the input whose buffer `output` may overwrite, because kernels read each element before they
  /// write it; or nothing.
  virtual std::optional<int> in_place(int output) const;
  /// The operation as a step of a fused kernel; nothing: it is no such step.
  virtual std::optional<ElementwiseStep> elementwise_step() const { return std::nullopt; }
  /// An update of one variable or a part of it: devices do many of them in one kernel (engine/ops/multi_tensor.h).
  virtual bool is_groupable() const { return false; }
  /// The sum that the first output is, made again with a float32 result; null: it is no sum.
  virtual Tensor wide_sum() const;
  /// A shift that the partitioner carries out between neighbours; nothing: it is none.
  virtual std::optional<NeighbourShift> neighbour_shift() const { return std::nullopt; }
  /// Returns the dtype of the first input, or of the first output if there is no input. Kernels are
  /// registered under the name and this dtype.
  DType kernel_dtype() const;

  const Tensors& inputs() const { return inputs_; }
  const Tensor& input(int i) const { return inputs_[i]; }
  const std::vector<OutputInfo>& outputs() const { return outputs_; }
  Tensor output(int i = 0) const { return Tensor(const_cast<Operation*>(this), i); }
  Graph& graph() const { return *graph_; }
  const OperationScope& scope() const { return scope_; }
  const Provenance& provenance() const { return scope_.provenance; }
  const PartitionHints& hints() const { return scope_.hints; }

 private:
  friend class Graph;
  Tensors inputs_;
  std::vector<OutputInfo> outputs_;
  Graph* graph_ = nullptr;
  OperationScope scope_;
};

/// Implements clone().
template <class Derived>
class OperationBase : public Operation {
 public:
  using Operation::Operation;
  std::unique_ptr<Operation> clone() const override {
    return std::make_unique<Derived>(static_cast<const Derived&>(*this));
  }
};

/// `dy`, the gradients of the outputs of an operation, with zeros in place of those that are null.
Tensors with_zeros(const Operation& operation, Tensors dy);

/// Throws Error (kConfig) without a mark: "OPERATION: message".
[[noreturn]] void shape_error(std::string_view operation, const std::string& message,
                              const std::string& hint = {});

inline const Shape& Tensor::shape() const { return operation_->outputs()[index_].shape; }
inline DType Tensor::dtype() const { return operation_->outputs()[index_].dtype; }
inline Graph& Tensor::graph() const { return operation_->graph(); }

}  // namespace mtf
