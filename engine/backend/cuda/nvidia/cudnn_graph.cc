#include "engine/backend/cuda/nvidia/cudnn_graph.h"

#include <algorithm>
#include <utility>

namespace mtf::cuda::cudnn {
namespace {

/// The bytes at multiples of which matrices begin, and other operands.
constexpr int64_t kMatrixAlignment = 16, kNumberAlignment = 4;

Sizes dense_strides(const Sizes& sizes) {
  return {sizes[1] * sizes[2] * sizes[3], sizes[2] * sizes[3], sizes[3], 1};
}

std::vector<int64_t> list(const Sizes& sizes) { return {sizes.begin(), sizes.end()}; }

/// The type in which a pointwise operation computes results of a type.
DataType precision(DataType result) { return result == DataType::kBFloat16 ? DataType::kFloat : result; }

}  // namespace

Graph::Tensor Graph::add(const TensorInfo& info, Place place) {
  const Tensor tensor = tensors_.size();
  Descriptor descriptor(cudnn_, Kind::kTensor);
  descriptor.set(Attribute::kTensorType, info.type)
      .set(Attribute::kTensorDimensions, list(info.sizes))
      .set(Attribute::kTensorStrides, list(info.strides))
      .set(Attribute::kTensorId, static_cast<int64_t>(tensor))
      .set(Attribute::kTensorAlignment,
           info.type == DataType::kBFloat16 ? kMatrixAlignment : kNumberAlignment)
      .set(Attribute::kTensorIsVirtual, place == Place::kNowhere)
      .set(Attribute::kTensorIsByValue, place == Place::kHost)
      .finalize();
  tensors_.push_back(info);
  descriptors_.push_back(std::move(descriptor));
  return tensor;
}

Graph::Tensor Graph::result(std::optional<Tensor> to, const Sizes& sizes, DataType type) {
  return to ? *to : add({sizes, dense_strides(sizes), type}, Place::kNowhere);
}

Graph::Tensor Graph::matmul(Tensor a, Tensor b, std::optional<Tensor> to) {
  Sizes sizes = tensors_[a].sizes;
  sizes[3] = tensors_[b].sizes[3];
  const Tensor c = result(to, sizes, DataType::kFloat);
  Descriptor matmul(cudnn_, Kind::kMatmul);
  matmul.set(Attribute::kMatmulPrecision, DataType::kFloat).finalize();
  Descriptor& operation = operations_.emplace_back(cudnn_, Kind::kMatmulOperation);
  operation.set(Attribute::kMatmulDescriptor, matmul)
      .set(Attribute::kMatmulA, descriptor(a))
      .set(Attribute::kMatmulB, descriptor(b))
      .set(Attribute::kMatmulC, descriptor(c))
      .finalize();
  return c;
}

Descriptor& Graph::add_pointwise(Pointwise mode, Tensor x, Tensor y, std::optional<int64_t> axis) {
  Descriptor pointwise(cudnn_, Kind::kPointwise);
  pointwise.set(Attribute::kPointwiseMode, mode)
      .set(Attribute::kPointwisePrecision, precision(tensors_[y].type));
  if (axis) pointwise.set(Attribute::kPointwiseAxis, *axis);
  pointwise.finalize();
  return operations_.emplace_back(cudnn_, Kind::kPointwiseOperation)
      .set(Attribute::kPointwiseDescriptor, pointwise)
      .set(Attribute::kPointwiseX, descriptor(x))
      .set(Attribute::kPointwiseY, descriptor(y));
}

Graph::Tensor Graph::pointwise(Pointwise mode, Tensor x, std::optional<Tensor> b, std::optional<Tensor> to,
                               DataType type) {
  Sizes sizes = tensors_[x].sizes;
  for (size_t i = 0; b && i < sizes.size(); ++i) sizes[i] = std::max(sizes[i], tensors_[*b].sizes[i]);
  const Tensor y = result(to, sizes, type);
  Descriptor& operation = add_pointwise(mode, x, y);
  if (b) operation.set(Attribute::kPointwiseB, descriptor(*b));
  operation.finalize();
  return y;
}

Graph::Tensor Graph::index(Tensor x, int64_t axis) {
  const Tensor y = result({}, tensors_[x].sizes, DataType::kInt32);
  add_pointwise(Pointwise::kIndex, x, y, axis).finalize();
  return y;
}

Graph::Tensor Graph::select(Tensor condition, Tensor x, Tensor other) {
  const Tensor y = result({}, tensors_[x].sizes, DataType::kFloat);
  add_pointwise(Pointwise::kSelect, x, y)
      .set(Attribute::kPointwiseB, descriptor(other))
      .set(Attribute::kPointwiseCondition, descriptor(condition))
      .finalize();
  return y;
}

Graph::Tensor Graph::reduce(Reduction reduction, Tensor x) {
  Sizes sizes = tensors_[x].sizes;
  sizes[3] = 1;
  const Tensor y = result({}, sizes, DataType::kFloat);
  Descriptor reduce(cudnn_, Kind::kReduction);
  reduce.set(Attribute::kReductionOperator, reduction)
      .set(Attribute::kReductionPrecision, DataType::kFloat)
      .finalize();
  Descriptor& operation = operations_.emplace_back(cudnn_, Kind::kReductionOperation);
  operation.set(Attribute::kReductionDescriptor, reduce)
      .set(Attribute::kReductionX, descriptor(x))
      .set(Attribute::kReductionY, descriptor(y))
      .finalize();
  return y;
}

Graph::Tensor Graph::transposed(Tensor x, DataType type) {
  TensorInfo info = tensors_[x];
  std::swap(info.sizes[2], info.sizes[3]);
  std::swap(info.strides[2], info.strides[3]);
  info.type = type;
  const Tensor y = add(info, Place::kNowhere);
  operations_.emplace_back(cudnn_, Kind::kReshapeOperation)
      .set(Attribute::kReshapeX, descriptor(x))
      .set(Attribute::kReshapeY, descriptor(y))
      .finalize();
  return y;
}

void Graph::finish(const Target& target) {
  graph_.emplace(cudnn_, Kind::kOperationGraph);
  graph_->set(Attribute::kGraphOperations, operations_);
  if (target.handle != nullptr) graph_->set(Attribute::kGraphHandle, target.handle);
  graph_->finalize();
}

std::vector<Descriptor> Graph::engines(const Target& target) const {
  Descriptor heuristic(cudnn_, Kind::kEngineHeuristic);
  heuristic.set(Attribute::kHeuristicGraph, *graph_).set(Attribute::kHeuristicMode, Heuristic::kBest);
  if (target.handle == nullptr) heuristic.set(Attribute::kHeuristicDevice, *target.properties);
  heuristic.finalize();
  return heuristic.get(Attribute::kHeuristicResults, Kind::kEngineConfiguration);
}

std::unique_ptr<Plan> Graph::plan(const Target& target) const {
  for (const Descriptor& engine : engines(target)) {
    Descriptor plan(cudnn_, Kind::kExecutionPlan);
    plan.set(Attribute::kPlanConfiguration, engine);
    if (target.handle != nullptr) {
      plan.set(Attribute::kPlanHandle, target.handle);
    } else {
      plan.set(Attribute::kPlanDevice, *target.properties);
    }
    if (plan.try_to_finalize() == 0) return std::make_unique<Plan>(std::move(plan));
  }
  return nullptr;
}

void execute(const Functions& cudnn, Handle handle, const Plan& plan, const Addresses& addresses,
             std::byte* workspace) {
  std::vector<int64_t> ids;
  std::vector<void*> pointers;
  for (const auto& [tensor, address] : addresses) {
    ids.push_back(static_cast<int64_t>(tensor));
    pointers.push_back(const_cast<void*>(address));
  }
  Descriptor pack(cudnn, Kind::kVariantPack);
  pack.set(Attribute::kPackIds, ids)
      .set(Attribute::kPackPointers, pointers)
      .set(Attribute::kPackWorkspace, static_cast<void*>(workspace))
      .finalize();
  cudnn.check(cudnn.execute(handle, plan.handle(), pack.handle()), "attention");
}

}  // namespace mtf::cuda::cudnn
