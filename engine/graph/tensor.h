// A tensor of the graph: a handle to one output of an operation. It is cheap to copy and valid as long as its
// graph.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/core/dtype.h"
#include "engine/core/shape.h"

namespace mtf {

class Graph;
class Operation;

class Tensor {
 public:
  /// The null tensor; as a gradient it means that there is no dependency.
  Tensor() = default;
  Tensor(Operation* operation, int index) : operation_(operation), index_(index) {}

  explicit operator bool() const { return operation_ != nullptr; }
  const Shape& shape() const;
  DType dtype() const;
  Operation& operation() const { return *operation_; }
  /// The index of this output of the operation.
  int index() const { return index_; }
  Graph& graph() const;

  friend bool operator==(const Tensor&, const Tensor&) = default;

 private:
  Operation* operation_ = nullptr;
  int index_ = 0;
};

using Tensors = std::vector<Tensor>;

struct TensorHash {
  size_t operator()(const Tensor& t) const {
    return std::hash<const void*>()(&t.operation()) * 31 + static_cast<size_t>(t.index());
  }
};

}  // namespace mtf
