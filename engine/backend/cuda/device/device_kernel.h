// Kernels of the CUDA backend. Such a Kernel has one task, which enqueues launches on the device's compute
// stream.
//
//   const DeviceKernelRegistration relu(
//       "relu", {DType::kFloat32}, [](const KernelContext& context, Device& device) {
//         const int64_t n = context.outputs[0].local.size();
//         return make_device_kernel(device, [n](const Launcher& launch, const KernelCall& call) {
//           launch(over(n), Relu{call.input<float>(0), call.output<float>(0), n});
//         });
//       });
//
// What enqueue(launch, call) reads on the host (begins of slices, iteration) is fixed when a program is
// recorded. `*call.step` is in device memory and is read by kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/backend/cuda/device/launch_batch.h"
#include "engine/backend/kernel.h"
#include "engine/base/check.h"

namespace mtf::cuda {

/// Launches kernels for one call, on its stream and under its guard. Or adds the launches of one kernel to a
/// batch, which takes only function objects with `static constexpr bool kBatched = true`.
class Launcher {
 public:
  Launcher(Device& device, const KernelCall& call) : Launcher(device, call.guard) {}
  Launcher(Device& device, const bool* guard) : device_(device), guard_(guard) {}
  Launcher(Device& device, LaunchBatch& batch) : device_(device), guard_(nullptr), batch_(&batch) {}
  template <class Body>
  void operator()(const LaunchShape& shape, const Body& body) const {
    if (batch_ == nullptr) return launch(device_.compute(), shape, guard_, body);
    if constexpr (requires { requires Body::kBatched; }) {
      batch_->add(shape, body);
    } else {
      MTF_CHECK(false, "a launch that is not for batches");
    }
  }
  /// Launches a kernel of FusionKernels.
  void fusion(const LaunchShape& shape, int kernel, std::span<const std::byte> arguments) const;
  Device& device() const { return device_; }

 private:
  Device& device_;
  const bool* guard_;
  LaunchBatch* batch_ = nullptr;
};

/// A kernel whose calls only enqueue launches.
class DeviceKernel : public Kernel {
 public:
  explicit DeviceKernel(Device& device) : device_(device) {}
  virtual void enqueue(const Launcher& launch, const KernelCall& call) const = 0;
  int64_t tasks() const final { return 1; }
  int64_t run(const KernelCall& call, int64_t, int64_t) const final {
    enqueue(Launcher(device_, call), call);
    return flops();
  }

 protected:
  /// The FLOPs of contractions in one call.
  virtual int64_t flops() const { return 0; }

 private:
  Device& device_;
};

/// A kernel that calls enqueue(const Launcher&, const KernelCall&). `scratch` is the size of
/// KernelCall::scratch in bytes, `flops` the FLOPs of contractions in one call.
template <class Enqueue>
std::unique_ptr<Kernel> make_device_kernel(Device& device, Enqueue enqueue, size_t scratch = 0,
                                           int64_t flops = 0) {
  class Enqueued final : public DeviceKernel {
   public:
    Enqueued(Device& device, Enqueue enqueue, size_t scratch, int64_t flops)
        : DeviceKernel(device), enqueue_(std::move(enqueue)), scratch_(scratch), flops_(flops) {}
    size_t scratch_bytes() const override { return scratch_; }
    void enqueue(const Launcher& launch, const KernelCall& call) const override { enqueue_(launch, call); }

   private:
    int64_t flops() const override { return flops_; }

    Enqueue enqueue_;
    size_t scratch_;
    int64_t flops_;
  };
  return std::make_unique<Enqueued>(device, std::move(enqueue), scratch, flops);
}

/// The FLOPs of the operation's contractions, whether or not the kernel skips some of them.
int64_t contraction_flops(const KernelContext& context);

using DeviceKernelFactory = std::function<std::unique_ptr<Kernel>(const KernelContext&, Device&)>;

/// A file-scope object that registers a CUDA kernel under an operation's name for these dtypes
/// (Operation::kernel_dtype).
class DeviceKernelRegistration {
 public:
  DeviceKernelRegistration(std::string_view operation, std::initializer_list<DType> dtypes,
                           DeviceKernelFactory factory);
};

/// Throws Error (kConfig) naming operation and dtype if there is no kernel.
std::unique_ptr<Kernel> prepare_device_kernel(const KernelContext& context, Device& device);
/// All (operation, dtype) pairs with a CUDA kernel, sorted.
std::vector<std::pair<std::string, DType>> device_kernels();

}  // namespace mtf::cuda
