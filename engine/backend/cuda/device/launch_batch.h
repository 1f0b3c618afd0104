// LaunchBatch combines launches of independent kernels: those of one function object become one launch.
//
//   LaunchBatch batch;
//   for (const DeviceKernel* kernel : kernels) {
//     batch.next_kernel();
//     kernel->enqueue(Launcher(device, batch), call);  // its n-th launch joins the n-th launches of others
//   }
//   batch.run(stream, guard);
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "engine/backend/cuda/device/batch_of.h"
#include "engine/backend/cuda/device/kernel_launch.h"

namespace mtf::cuda {

class FusionKernels;

template <class Body>
struct LaunchedBatch : BatchOf<Body> {
  static constexpr int kMaxThreads = max_threads<Body>();
};

class LaunchBatch {
 public:
  /// Starts another kernel: launches that are added from now on belong to it.
  void next_kernel() { stage_ = 0; }
  /// Adds the next launch of the kernel, which runs after all its earlier ones.
  template <class Body>
  void add(const LaunchShape& shape, const Body& body) {
    static_assert(std::is_trivially_copyable_v<Body>);
    Stage& stage = next_stage();
    for (const auto& launches : stage) {
      auto* alike = dynamic_cast<LaunchesOf<Body>*>(launches.get());
      if (alike != nullptr && alike->threads() == shape.threads) return alike->add(shape, &body);
    }
    stage.push_back(std::make_unique<LaunchesOf<Body>>(sizeof(Body), shape.threads));
    stage.back()->add(shape, &body);
  }
  /// Adds a launch of a fusion that was added for batches, with the arguments of a single one.
  void add_fusion(FusionKernels& fusions, int kernel, const LaunchShape& shape,
                  std::span<const std::byte> arguments);
  void run(Stream stream, const bool* guard) const;

 private:
  /// The launches of one function object.
  class Launches {
   public:
    Launches(size_t object, int threads) : object_(object), threads_(threads) {}
    virtual ~Launches() = default;
    int threads() const { return threads_; }
    size_t object_bytes() const { return object_; }
    void add(const LaunchShape& shape, const void* object);
    void run(Stream stream, const bool* guard) const;

   private:
    /// `batch` holds a BatchOf.
    virtual void launch(Stream stream, const LaunchShape& shape, const bool* guard,
                        std::span<const std::byte> batch) const = 0;

    const size_t object_;
    const int threads_;
    std::vector<LaunchShape> shapes_;
    std::vector<std::byte> objects_;
  };

  template <class Body>
  struct LaunchesOf final : Launches {
    using Launches::Launches;
    void launch(Stream stream, const LaunchShape& shape, const bool* guard,
                std::span<const std::byte> batch) const override {
      LaunchedBatch<Body> launched;
      static_assert(sizeof(launched) == BatchLayout(sizeof(Body)).bytes);
      std::memcpy(&launched, batch.data(), sizeof(launched));
      mtf::cuda::launch(stream, shape, guard, launched);
    }
  };
  class FusionLaunches;
  using Stage = std::vector<std::unique_ptr<Launches>>;  ///< independent of each other

  Stage& next_stage();

  std::vector<Stage> stages_;
  size_t stage_ = 0;
};

}  // namespace mtf::cuda
