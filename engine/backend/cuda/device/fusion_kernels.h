// What makes and launches the kernels of fusions of elementwise operations (fusion/fusion.h).
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace mtf::cuda {

struct Fusion;
struct LaunchShape;
struct Stream;

/// Kernels of one device.
class FusionKernels {
 public:
  virtual ~FusionKernels() = default;
  /// What the bits of results depend on, "nvrtc 13.0"; empty: nothing.
  virtual std::string version() const { return {}; }
  /// A number for launch(); fusions that are alike have one. `in_batches`: launch() is told a BatchOf.
  virtual int add(const Fusion& fusion, bool in_batches) = 0;
  /// Makes the kernels of all fusions that have none yet.
  virtual void compile() = 0;
  /// `arguments`: FusionArguments and what lies behind them. Where `guard` is false, nothing is written.
  virtual void launch(Stream stream, const LaunchShape& shape, const bool* guard, int kernel,
                      std::span<const std::byte> arguments) = 0;
};

}  // namespace mtf::cuda
