// What makes and launches the kernels of chains of element-wise operations (chains/chain.h).
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace mtf::cuda {

struct Chain;
struct LaunchShape;
struct Stream;

/// Kernels of one device.
class ChainKernels {
 public:
  virtual ~ChainKernels() = default;
  /// What the bits of results depend on, "nvrtc 13.0"; empty: nothing.
  virtual std::string version() const { return {}; }
  /// A number for launch(); chains that are alike have one. `in_batches`: launch() is told a BatchOf.
  virtual int add(const Chain& chain, bool in_batches) = 0;
  /// Makes the kernels of all chains that have none yet.
  virtual void compile() = 0;
  /// `arguments`: ChainArguments and what lies behind them. Where `guard` is false, nothing is written.
  virtual void launch(Stream stream, const LaunchShape& shape, const bool* guard, int kernel,
                      std::span<const std::byte> arguments) = 0;
};

}  // namespace mtf::cuda
