// Device memory and pinned host memory, allocated directly from the system and zeroed. An access beyond its
// end faults (under AddressSanitizer at the first byte, otherwise within 256 bytes), and so does an access by
// the host to device memory (where the processor lacks protection keys, a sample of these).
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>

namespace mtf::cuda::emulator {

/// Emulated devices do one thing at a time, whichever thread requests it: all calls hold this mutex.
std::recursive_mutex& emulator_mutex();

class Memory {
 public:
  enum class Kind { kDevice, kPinned };

  /// Allocates memory, aligned to 256 bytes. Throws Error (kMemory).
  Memory(Kind kind, int64_t bytes);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  Kind kind() const { return kind_; }

  /// The memory that contains all of these bytes, or null.
  static const Memory* find(const std::byte* begin, int64_t bytes);

 private:
  friend class MemoryAccess;
  void open() const;
  void close() const;

  Kind kind_;
  int64_t bytes_;
  size_t pages_bytes_;
  std::byte* pages_;
  std::byte* data_;
  mutable bool is_open_ = false;
};

/// While an object lives, devices are working: accesses to memory that they open do not fault.
class MemoryAccess {
 public:
  MemoryAccess();
  ~MemoryAccess();
  MemoryAccess(const MemoryAccess&) = delete;
  MemoryAccess& operator=(const MemoryAccess&) = delete;

  /// Opens the memory that contains this byte.
  static void open(const std::byte* address);
  static void open_all();
};

}  // namespace mtf::cuda::emulator
