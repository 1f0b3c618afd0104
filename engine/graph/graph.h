// The graph of a whole step, with global shapes. It is append-only, so that the order of creation is
// topological.
//
//   Graph graph;
//   Tensor x = graph.input("image", {batch, pixels});
//   Tensor w = graph.read(graph.variable("w", {pixels, hidden}, DType::kFloat32, Initializer::normal(0.1)));
//   Tensor y = relu(einsum({x, w}, {batch, hidden}));
//   graph.set_output("logits", y);
//
// Operations are appended to the current block: the root, or the body of the `repeat` that is being built
// (structural.h).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "engine/core/matmul_precision.h"
#include "engine/graph/operation.h"
#include "engine/graph/variable.h"

namespace mtf {

class WeightCopies;

/// A list of operations in order. They are shared with programs, which keep the operations that they run.
using Block = std::vector<std::shared_ptr<Operation>>;

/// Returns the layout rules that apply to a variable between steps.
inline Domain domain_of(const Variable& variable) {
  if (variable.kind == Variable::Kind::kSession) return Domain::kActivation;
  return variable.kind == Variable::Kind::kSlot ? Domain::kOptimizer : Domain::kParameter;
}

/// A part of a model that one stage of a pipeline has: a block of a stack of blocks, or a layer outside of them.
struct Unit {
  std::string name;  ///< unique in the graph: its scope path, such as "decoder/block_003"
  bool is_block = false;
};

/// The microbatch loop that is being built: microbatch j of `count` takes examples i*count + j of `dimension`
/// (docs/numerics.md "Microbatches").
struct Microbatching {
  std::string dimension;
  int64_t count = 1;
};

class Graph {
 public:
  Graph() = default;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  /// Constructs and appends an operation.
  template <class Op, class... Arguments>
  Op& add(Arguments&&... arguments) {
    auto operation = std::make_shared<Op>(std::forward<Arguments>(arguments)...);
    Op& result = *operation;
    append(std::move(operation));
    return result;
  }
  /// Appends a copy of `operation` that reads `inputs`; for recomputation.
  Operation& add_clone(const Operation& operation, Tensors inputs);

  /// Adds a tensor that is fed before each step. Throws Error for names of dimensions that are empty or have `,` or kApart.
  Tensor input(const std::string& name, const Shape& shape, DType dtype = DType::kFloat32);
  /// Adds a tensor whose elements are all `value`; by default a scalar.
  Tensor constant(double value, DType dtype = DType::kFloat32, const Shape& shape = {});

  /// Returns the variable called `name`, which the first call creates; throws Error if it exists with another
  /// shape or dtype, and for the names that input() refuses.
  const Variable& variable(const std::string& name, const Shape& shape, DType dtype,
                           const Initializer& initializer, Variable::Kind kind = Variable::Kind::kWeight,
                           double step_scale = 1);
  /// Sets Variable::on_host.
  void place_on_host(const Variable& variable);
  const std::vector<std::unique_ptr<Variable>>& variables() const { return variables_; }
  const Variable* find_variable(const std::string& name) const;
  /// Returns the variable's value before the updates of this step.
  Tensor read(const Variable& variable);
  /// Sets the variable at the end of the step, if `guard` (a scalar bool; null: always) is true.
  void assign(const Variable& variable, const Tensor& value, const Tensor& guard = {});

  /// Keeps a tensor until the end of the step, so that it can be fetched as `name`.
  void set_output(const std::string& name, const Tensor& tensor);
  const std::vector<std::pair<std::string, Tensor>>& outputs() const { return outputs_; }

  const Block& root() const { return root_; }
  /// Returns the block to which operations are appended.
  Block& current_block() { return *blocks_.back(); }

  /// Returns the current scope path joined with `name`.
  std::string scoped(const std::string& name) const;
  /// Returns scoped(name), made unique by a suffix _1, _2, ... (ignoring case).
  std::string unique_name(const std::string& name);
  const Provenance& provenance() const { return scope_.provenance; }
  const Microbatching& microbatching() const { return microbatching_; }
  /// Returns microbatching() with the name that its dimension has in `shape`: see add_microbatch_name().
  Microbatching microbatching_of(const Shape& shape) const;
  /// Says that some tensors have the dimension of the examples under the name `name`, since a layer has renamed it.
  void add_microbatch_name(const std::string& name) { microbatch_names_.insert(name); }
  /// The precision of contractions that are added from now on; at first kFull.
  void set_matmul_precision(MatmulPrecision precision) { matmul_precision_ = precision; }
  MatmulPrecision matmul_precision() const { return matmul_precision_; }
  /// Contractions with weights that are added from now on read copies of these (engine/ops/weight_copies.h). Null:
  /// they do not.
  void set_weight_copies(std::shared_ptr<WeightCopies> copies) { weight_copies_ = std::move(copies); }
  const std::shared_ptr<WeightCopies>& weight_copies() const { return weight_copies_; }

  /// Restores the previous scope when it is destroyed.
  class Scope {
   public:
    Scope(Graph& graph, const OperationScope& inner) : graph_(graph), saved_(graph.scope_) {
      graph.scope_ = inner;
    }
    ~Scope() { graph_.scope_ = saved_; }
    Scope(const Scope&) = delete;

   private:
    Graph& graph_;
    OperationScope saved_;
  };
  /// Enters a named scope: variables and operations that are created inside are called PATH/name/...
  [[nodiscard]] Scope scope(const std::string& name, const Mark& mark = {});
  [[nodiscard]] Scope domain(Domain domain);
  [[nodiscard]] Scope phase(Phase phase);
  /// Begins the next layer (PartitionHints::layer).
  [[nodiscard]] Scope layer();
  /// Begins the next unit, unless inside of one. `name` is relative to the current scope.
  [[nodiscard]] Scope unit(const std::string& name, bool is_block = false);
  const std::vector<Unit>& units() const { return units_; }
  /// Gives this scope to operations that are created inside; gradients and clones thus keep that of their
  /// origin.
  [[nodiscard]] Scope with(const OperationScope& scope);

  /// Calls `build` with a new block as the current block, and returns that block. After an exception of `build` the graph
  /// appends where it did before.
  Block capture(const Microbatching& microbatching, const std::function<void()>& build);

 private:
  class BlockScope;

  void append(std::shared_ptr<Operation> operation);

  Block root_;
  std::vector<Block*> blocks_{&root_};
  std::vector<std::unique_ptr<Variable>> variables_;
  std::map<std::string, Variable*> variable_by_name_;
  std::map<std::pair<const Variable*, const Block*>, Tensor> reads_;
  std::vector<std::pair<std::string, Tensor>> outputs_;
  std::unordered_set<std::string> names_;
  OperationScope scope_;
  Microbatching microbatching_;
  std::set<std::string> microbatch_names_;  ///< besides that of microbatching_
  MatmulPrecision matmul_precision_ = MatmulPrecision::kFull;
  std::shared_ptr<WeightCopies> weight_copies_;
  int layers_ = 0;
  std::vector<Unit> units_;
};

}  // namespace mtf
