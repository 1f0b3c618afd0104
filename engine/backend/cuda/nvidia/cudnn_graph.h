// Graph is a graph of operations on tensors of four dimensions, which cuDNN computes in one kernel or a few
// if it knows an engine for the pattern.
//
//   Graph graph(cudnn);
//   const Graph::Tensor logits = graph.matmul(q, k);
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "engine/backend/cuda/nvidia/cudnn_interface.h"

namespace mtf::cuda::cudnn {

using Sizes = std::array<int64_t, 4>;

struct TensorInfo {
  Sizes sizes{}, strides{};
  DataType type = DataType::kFloat;
};

/// The device for which plans are made: that of a handle, or one that is described.
struct Target {
  Handle handle = nullptr;
  const Descriptor* properties = nullptr;  ///< used if there is no handle
};

/// A finalized execution plan.
class Plan {
 public:
  explicit Plan(Descriptor descriptor) : descriptor_(std::move(descriptor)) {}
  int64_t workspace_bytes() const { return descriptor_.get<int64_t>(Attribute::kPlanWorkspace, 1).front(); }
  void* handle() const { return descriptor_.handle(); }

 private:
  Descriptor descriptor_;
};

class Graph {
 public:
  using Tensor = size_t;

  explicit Graph(const Functions& cudnn) : cudnn_(cudnn) {}

  /// An operand, whose address is given with each execution under the number of the tensor.
  Tensor operand(const TensorInfo& info) { return add(info, Place::kMemory); }
  /// A number of float32; its address, on the host, is given like those of operands.
  Tensor number() { return add({.sizes = {1, 1, 1, 1}, .strides = {1, 1, 1, 1}}, Place::kHost); }

  /// The operations write to `to` if it is given, else to a tensor that is not stored, of `type`.
  Tensor matmul(Tensor a, Tensor b, std::optional<Tensor> to = {});
  /// x op b, or op x. Integers are computed as such.
  Tensor pointwise(Pointwise mode, Tensor x, std::optional<Tensor> b = {}, std::optional<Tensor> to = {},
                   DataType type = DataType::kFloat);
  /// The index of each entry of x along an axis, as kInt32.
  Tensor index(Tensor x, int64_t axis);
  /// x where `condition` holds, else `other`.
  Tensor select(Tensor condition, Tensor x, Tensor other);
  /// Reduces the last dimension.
  Tensor reduce(Reduction reduction, Tensor x);
  /// Exchanges the last two dimensions.
  Tensor transposed(Tensor x, DataType type);

  /// Ends the graph. Throws Error if no engine may know its operations.
  void finish(const Target& target);
  /// The engines that the library proposes for the finished graph, the best first, as configurations.
  std::vector<Descriptor> engines(const Target& target) const;
  /// The plan of the first engine that supports the graph. Null if there is none; Functions::last_error() may
  /// then tell why.
  std::unique_ptr<Plan> plan(const Target& target) const;

 private:
  enum class Place { kMemory, kHost, kNowhere };

  Tensor add(const TensorInfo& info, Place place);
  /// `to`, or a new tensor with the sizes, that is not stored.
  Tensor result(std::optional<Tensor> to, const Sizes& sizes, DataType type);
  /// Adds the operation of this mode from x to y; the caller adds other operands and finalizes it.
  Descriptor& add_pointwise(Pointwise mode, Tensor x, Tensor y, std::optional<int64_t> axis = {});
  const Descriptor& descriptor(Tensor tensor) const { return descriptors_[tensor]; }

  const Functions& cudnn_;
  std::vector<TensorInfo> tensors_;
  std::vector<Descriptor> descriptors_;  ///< of tensors
  std::vector<Descriptor> operations_;
  std::optional<Descriptor> graph_;
};

/// The addresses of operands, and of numbers on the host.
using Addresses = std::map<Graph::Tensor, const void*>;

/// Enqueues a plan on the stream of the handle.
void execute(const Functions& cudnn, Handle handle, const Plan& plan, const Addresses& addresses,
             std::byte* workspace);

}  // namespace mtf::cuda::cudnn
