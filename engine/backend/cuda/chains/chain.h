// A chain of element-wise operations (engine/ops/fused_elementwise.h) as its kernel is made from it, and what
// makes and launches such kernels.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "engine/ops/fused_elementwise.h"

namespace mtf::cuda {

struct LaunchShape;
struct Stream;

/// Everything but sizes, parameters and memory. Values are numbered as those of the operation are.
struct Chain {
  struct Step {
    enum class Kind {
      kUnary,     ///< a UnaryFunction
      kGradient,  ///< of a UnaryFunction
      kBinary,    ///< a BinaryFunction
      kWhere,
      kCast,
      kDropout,
      kSum,       ///< of all operands, in order
      kCopy,      ///< of an operand, which the kernel has repeated where it was loaded
      kConstant,  ///< the parameter
    };
    Kind kind = Kind::kCopy;
    int function = 0;
    DType result = DType::kFloat32;
    std::vector<int> operands;
    int parameter = -1;  ///< of ChainArguments::parameters; -1: none
    int dropout = -1;    ///< which ChainDropout; -1: none
  };

  /// `walks`: by input, whether it is read otherwise than the outputs are written.
  Chain(const FusedElementwise& operation, std::vector<bool> walks);

  /// Of a value.
  DType dtype(int value) const;
  /// That a thread loads and stores at once.
  int elements() const;
  int dropouts() const;

  std::vector<DType> inputs;
  std::vector<bool> walks;
  std::vector<Step> steps;
  std::vector<int> results;  ///< values that are outputs
};

/// ChainArguments::parameters of an operation.
std::vector<double> chain_parameters(const FusedElementwise& operation);

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
