// A kind of device: its memory and its kernels. The runtime knows devices only through this interface.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "engine/backend/kernel.h"

namespace mtf {

/// Movement of data that belongs to no operation.
struct Move {
  enum class Kind {
    kSlice,       ///< output = the part of `dimension` that begins at the output's begin
    kCopy,        ///< output = input
    kAccumulate,  ///< output = input in iteration 0, else output += input
    kPlace,       ///< entry i*count + iteration of `dimension` of the output = entry i of the input
  };
  Kind kind = Kind::kCopy;
  LocalTensor input;
  LocalTensor output;
  int dimension = -1;
  int64_t count = 1;
};

/// Memory of a device, aligned to 64 bytes, zeroed.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  virtual std::byte* data() = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::unique_ptr<DeviceMemory> allocate(int64_t bytes) = 0;
  /// Throws Error (kConfig) that names operation and dtype when there is no kernel.
  virtual std::unique_ptr<Kernel> prepare(const KernelContext& context) = 0;
  virtual std::unique_ptr<Kernel> prepare(const Move& move) = 0;
  /// Called once by each thread that runs kernels.
  virtual void prepare_thread() = 0;
  /// Instruction set or architecture that the bits of results depend on: "avx512".
  virtual std::string instruction_set() const = 0;
};

/// The processor's cores.
std::unique_ptr<Backend> make_cpu_backend();

}  // namespace mtf
