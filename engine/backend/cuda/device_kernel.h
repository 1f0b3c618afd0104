// Kernels of the CUDA backend: a Kernel with one task, which enqueues launches on the device's compute
// stream.
//
//   const DeviceKernelRegistration relu("relu", {DType::kFloat32}, [](const KernelContext& context, Device&
//   device) {
//     const int64_t n = context.outputs[0].local.size();
//     return make_device_kernel(device, [n](const Launcher& launch, const KernelCall& call) {
//       launch(over(n), Relu{call.input<float>(0), call.output<float>(0), n});
//     });
//   });
//
// What enqueue(launch, call) reads on the host (slices' begins, iteration) is fixed when a program is
// recorded;
// `*call.step` is memory of the device, to be read by kernels.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <string_view>
#include <utility>

#include "engine/backend/cuda/launch.h"
#include "engine/backend/kernel.h"

namespace mtf::cuda {

/// Launches for one call: on its stream, under its guard.
class Launcher {
 public:
  Launcher(Device& device, const KernelCall& call) : Launcher(device, call.guard) {}
  Launcher(Device& device, const bool* guard) : device_(device), guard_(guard) {}
  template <class Body>
  void operator()(const LaunchShape& shape, const Body& body) const {
    launch(device_.compute(), shape, guard_, body);
  }
  Device& device() const { return device_; }

 private:
  Device& device_;
  const bool* guard_;
};

/// enqueue(const Launcher&, const KernelCall&). `scratch`: bytes of KernelCall::scratch; `flops`: of
/// contractions, that a call does.
template <class Enqueue>
std::unique_ptr<Kernel> make_device_kernel(Device& device, Enqueue enqueue, size_t scratch = 0,
                                           int64_t flops = 0) {
  class Enqueued final : public Kernel {
   public:
    Enqueued(Device& device, Enqueue enqueue, size_t scratch, int64_t flops)
        : device_(device), enqueue_(std::move(enqueue)), scratch_(scratch), flops_(flops) {}
    int64_t tasks() const override { return 1; }
    size_t scratch_bytes() const override { return scratch_; }
    int64_t run(const KernelCall& call, int64_t, int64_t) const override {
      enqueue_(Launcher(device_, call), call);
      return flops_;
    }

   private:
    Device& device_;
    Enqueue enqueue_;
    size_t scratch_;
    int64_t flops_;
  };
  return std::make_unique<Enqueued>(device, std::move(enqueue), scratch, flops);
}

/// FLOPs of the operation's contractions, whether or not the kernel skips some of them.
int64_t contraction_flops(const KernelContext& context);

using DeviceKernelFactory = std::function<std::unique_ptr<Kernel>(const KernelContext&, Device&)>;

/// A file-scope object that makes a CUDA kernel known under an operation's name for these dtypes
/// (Operation::kernel_dtype).
class DeviceKernelRegistration {
 public:
  DeviceKernelRegistration(std::string_view operation, std::initializer_list<DType> dtypes,
                           DeviceKernelFactory factory);
};

/// Throws Error (kConfig) that names operation and dtype when there is none.
std::unique_ptr<Kernel> prepare_device_kernel(const KernelContext& context, Device& device);
/// All (operation, dtype) with a CUDA kernel, sorted.
std::vector<std::pair<std::string, DType>> device_kernels();

}  // namespace mtf::cuda
