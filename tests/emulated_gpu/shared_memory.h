// SharedMemory is the memory that the threads of a block share.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>

#include "tests/emulated_gpu/sanitizers.h"

namespace mtf::cuda::emulator {

/// Memory of exactly the requested size, followed by bytes that must not change.
class SharedMemory {
 public:
  explicit SharedMemory(int64_t bytes)
      : bytes_(static_cast<size_t>(bytes)),
        memory_(new (std::align_val_t(16)) unsigned char[bytes_ + kRedZone]) {}
  unsigned char* data() { return memory_.get(); }
  /// Fills the memory with a pattern that is NaN in every floating-point type and -1 in integers.
  void fill() { std::memset(memory_.get(), 0xff, bytes_ + kRedZone); }
  bool intact() const {
    return std::all_of(memory_.get() + bytes_, memory_.get() + bytes_ + kRedZone,
                       [](unsigned char byte) { return byte == 0xff; });
  }

 private:
  struct Delete {
    void operator()(unsigned char* memory) const { operator delete[](memory, std::align_val_t(16)); }
  };
#if defined(MTF_ADDRESS_SANITIZER)
  static constexpr size_t kRedZone = 0;
#else
  static constexpr size_t kRedZone = 64;
#endif
  size_t bytes_;
  std::unique_ptr<unsigned char[], Delete> memory_;
};

}  // namespace mtf::cuda::emulator
