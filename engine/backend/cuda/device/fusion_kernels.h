// The interface that compiles and launches the kernels of fusions of elementwise operations
// (fusion/fusion.h).
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace mtf::cuda {

struct Fusion;
struct LaunchShape;
struct Stream;

/// The kernels of one device.
class FusionKernels {
 public:
  virtual ~FusionKernels() = default;
  /// What the bits of results depend on, such as "nvrtc 13.0"; empty if nothing.
  virtual std::string version() const { return {}; }
  /// Adds a fusion and returns its number for launch(); equal fusions share one. With `in_batches`, the
  /// arguments of launch() are a BatchOf.
  virtual int add(const Fusion& fusion, bool in_batches) = 0;
  /// Compiles the kernels of all fusions that have none yet.
  virtual void compile() = 0;
  /// `arguments` are FusionArguments and the data that follow them. If `guard` is false, nothing is written.
  virtual void launch(Stream stream, const LaunchShape& shape, const bool* guard, int kernel,
                      std::span<const std::byte> arguments) = 0;
};

}  // namespace mtf::cuda
