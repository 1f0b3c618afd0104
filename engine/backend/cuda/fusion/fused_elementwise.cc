// The kernel of `fused_elementwise`: lays out the arguments of its fusion's kernel.
#include "engine/ops/fused_elementwise.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "engine/backend/cuda/device/device_kernel.h"
#include "engine/backend/cuda/device/fusion_kernels.h"
#include "engine/backend/cuda/elementwise/broadcast_operand.h"
#include "engine/backend/cuda/fusion/fusion.h"
#include "engine/backend/cuda/fusion/fusion_steps.h"
#include "engine/base/check.h"
#include "engine/ops/random.h"

namespace mtf::cuda {
namespace {

struct PreparedDropout {
  NoiseIndex index;
  Noise noise;
  uint32_t threshold;
};

/// The launch of a fusion, without the memory of a call.
struct PreparedFusion {
  PreparedFusion(const KernelContext& context, Device& device);
  void enqueue(const Launcher& launch, const KernelCall& call) const;

  int kernel = -1;
  int elements = 1;
  bool packs = true;  ///< apart from the dropouts, which depend on the slice
  FusionArguments arguments{};
  std::vector<Strided<1>> walks;
  std::vector<PreparedDropout> dropouts;
};

bool walks_along(const KernelContext& context, size_t input) {
  const LocalTensor &from = context.inputs[input], &to = context.outputs[0];
  return from.local != to.local || from.strides != to.strides;
}

PreparedFusion::PreparedFusion(const KernelContext& context, Device& device) {
  const auto& operation = static_cast<const FusedElementwise&>(context.operation);
  std::vector<bool> along;
  for (size_t i = 0; i < context.inputs.size(); ++i) along.push_back(walks_along(context, i));
  const Fusion fusion(operation, along);
  MTF_CHECK(device.fusions() != nullptr, "{} on a device that has none", operation.name());
  kernel = device.fusions()->add(fusion, context.grouped);
  elements = fusion.elements();
  arguments.size = context.outputs[0].local.size();
  std::ranges::copy(fusion_parameters(operation), arguments.parameters);
  for (size_t i = 0; i < along.size(); ++i) {
    if (!along[i]) continue;
    const BroadcastOperand<std::byte> operand(context, static_cast<int>(i));
    packs = packs && operand.in_packs(elements);
    walks.push_back(operand.walk());
  }
  MTF_CHECK(std::ssize(walks) <= FusedElementwise::kMostRepeated, "{} repeated inputs", walks.size());
  for (const FusedElementwise::Step& step : operation.steps()) {
    const auto* dropout = dynamic_cast<const Dropout*>(step.operation.get());
    if (dropout == nullptr) continue;
    const NoiseIndex index(context.outputs[0], dropout->noise_shape, dropout->source.microbatching);
    const Noise noise(index, RandomStream::kDropout, random_key(dropout->source.name, context.seed));
    dropouts.push_back({index, noise, dropout_threshold(dropout->rate)});
  }
  MTF_CHECK(std::ssize(dropouts) <= FusedElementwise::kMostDropouts, "{} dropouts", dropouts.size());
}

/// FusionArguments and the data that follow them.
class ArgumentBytes {
 public:
  template <class T>
  void append(const T& value) {
    static_assert(sizeof(T) % alignof(FusionArguments) == 0 && alignof(T) <= alignof(FusionArguments));
    std::memcpy(bytes_ + size_, &value, sizeof(T));
    size_ += sizeof(T);
  }
  void append(std::span<const std::byte> bytes) {
    std::memcpy(bytes_ + size_, bytes.data(), bytes.size());
    size_ += bytes.size();
  }
  std::span<const std::byte> all() const { return {bytes_, size_}; }

 private:
  alignas(FusionArguments)
      std::byte bytes_[sizeof(FusionArguments) + FusedElementwise::kMostRepeated * sizeof(Strided<1>) +
                       FusedElementwise::kMostDropouts * sizeof(FusionDropout)];
  size_t size_ = 0;
};

void PreparedFusion::enqueue(const Launcher& launch, const KernelCall& call) const {
  FusionArguments first = arguments;
  first.packs = packs;
  for (size_t i = 0; i < call.inputs.size(); ++i) first.inputs[i] = call.inputs[i].data;
  for (size_t i = 0; i < call.outputs.size(); ++i) first.outputs[i] = call.outputs[i].data;
  ArgumentBytes behind;
  for (const Strided<1>& walk : walks) behind.append(walk);
  for (const PreparedDropout& dropout : dropouts) {
    const int64_t origin = dropout.index.origin(call.outputs[0].begin, call.iteration);
    const FusionDropout told{dropout.noise.with(call, origin), dropout.threshold};
    first.packs = first.packs && told.noise.in_packs(elements);
    behind.append(told);
  }
  ArgumentBytes bytes;
  bytes.append(first);
  bytes.append(behind.all());
  const LaunchShape shape = first.packs ? over((first.size + elements - 1) / elements, 1) : over(first.size);
  launch.fusion(shape, kernel, bytes.all());
}

std::unique_ptr<Kernel> fused_kernel(const KernelContext& context, Device& device) {
  return make_device_kernel(
      device, [fusion = PreparedFusion(context, device)](const Launcher& launch, const KernelCall& call) {
        fusion.enqueue(launch, call);
      });
}

const DeviceKernelRegistration fused_any("fused_elementwise", kAllTypes, fused_kernel);

}  // namespace
}  // namespace mtf::cuda
