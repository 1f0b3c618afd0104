// The whole step as one static graph with global shapes: append-only, creation order is topological.
//
//   Graph graph;
//   Tensor x = graph.input("image", {batch, pixels});
//   Tensor w = graph.read(graph.variable("w", {pixels, hidden}, DType::kFloat32, Initializer::normal(0.1)));
//   Tensor y = relu(einsum({x, w}, {batch, hidden}));
//   graph.set_output("logits", y);
//
// Operations are appended to the current block: the root, or the body of the `repeat` being built
// (structural.h).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "engine/graph/operation.h"
#include "engine/graph/variable.h"

namespace mtf {

/// Operations in order. Shared: programs keep the operations that they run.
using Block = std::vector<std::shared_ptr<Operation>>;

/// The rules that lay a variable out at rest.
inline Domain domain_of(const Variable& variable) {
  if (variable.kind == Variable::Kind::kSession) return Domain::kActivation;
  return variable.kind == Variable::Kind::kSlot ? Domain::kOptimizer : Domain::kParameter;
}

/// The loop that is being built: microbatch j of `count` takes examples i*count + j of `dimension`
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
  /// Appends a copy of `operation` that reads `inputs` (recomputation).
  Operation& add_clone(const Operation& operation, Tensors inputs);

  /// A tensor that is fed before each step.
  Tensor input(const std::string& name, const Shape& shape, DType dtype = DType::kFloat32);
  /// A 0-dimensional or constant-filled tensor.
  Tensor constant(double value, DType dtype = DType::kFloat32, const Shape& shape = {});

  /// The variable called `name`, created on first use; throws Error when it exists with another shape or
  /// dtype.
  const Variable& variable(const std::string& name, const Shape& shape, DType dtype,
                           const Initializer& initializer, Variable::Kind kind = Variable::Kind::kWeight,
                           double step_scale = 1);
  const std::vector<std::unique_ptr<Variable>>& variables() const { return variables_; }
  const Variable* find_variable(const std::string& name) const;
  /// The variable's value before this step's updates.
  Tensor read(const Variable& variable);
  /// Sets the variable at the end of the step, if `guard` (bool, 0-dimensional; null: always) holds.
  void assign(const Variable& variable, const Tensor& value, const Tensor& guard = {});

  /// Keeps a tensor to the end of the step so that it can be fetched by `name`.
  void set_output(const std::string& name, const Tensor& tensor);
  const std::vector<std::pair<std::string, Tensor>>& outputs() const { return outputs_; }

  const Block& root() const { return root_; }
  /// The block that operations are appended to.
  Block& current_block() { return *blocks_.back(); }

  /// The current scope path joined with `name`.
  std::string scoped(const std::string& name) const;
  /// scoped(name), made unique by a suffix _1, _2, ... (compared without case).
  std::string unique_name(const std::string& name);
  const Provenance& provenance() const { return provenance_; }
  const Microbatching& microbatching() const { return microbatching_; }
  /// Contractions of float32 that are added from now on may round their operands to tf32 (10 bits of
  /// mantissa) on devices that multiply such numbers faster.
  void set_tf32(bool tf32) { tf32_ = tf32; }
  bool tf32() const { return tf32_; }

  /// Restores the previous provenance when it goes out of scope.
  class Scope {
   public:
    Scope(Graph& graph, const Provenance& inner) : graph_(graph), saved_(graph.provenance_) {
      graph.provenance_ = inner;
    }
    ~Scope() { graph_.provenance_ = saved_; }
    Scope(const Scope&) = delete;

   private:
    Graph& graph_;
    Provenance saved_;
  };
  /// Enters a named scope: variables and operations made inside are called PATH/name/...
  [[nodiscard]] Scope scope(const std::string& name, const Mark& mark = {});
  [[nodiscard]] Scope domain(Domain domain);
  [[nodiscard]] Scope phase(Phase phase);
  /// Starts the next layer (Provenance::layer).
  [[nodiscard]] Scope layer();
  /// Operations made inside take this provenance (gradients and clones keep that of their origin).
  [[nodiscard]] Scope with(const Provenance& provenance);

  /// Runs `build` with operations going to a fresh block, which is returned.
  Block capture(const Microbatching& microbatching, const std::function<void()>& build);

 private:
  void append(std::shared_ptr<Operation> operation);

  Block root_;
  std::vector<Block*> blocks_{&root_};
  std::vector<std::unique_ptr<Variable>> variables_;
  std::map<std::string, Variable*> variable_by_name_;
  std::map<std::pair<const Variable*, const Block*>, Tensor> reads_;
  std::vector<std::pair<std::string, Tensor>> outputs_;
  std::unordered_set<std::string> names_;
  Provenance provenance_;
  Microbatching microbatching_;
  bool tf32_ = false;
  int layers_ = 0;
};

}  // namespace mtf
