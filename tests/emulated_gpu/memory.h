// Memory of devices and pinned memory of the host, straight from the system, zeroed. An access behind its end
// faults (under AddressSanitizer at the byte, else within 256 bytes), and so does an access of the host's to
// memory of a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>

namespace mtf::cuda::emulator {

/// Emulated devices do one thing at a time, whichever thread asks: held by all calls.
std::recursive_mutex& emulator_mutex();

class Memory {
 public:
  enum class Kind { kDevice, kPinned };

  /// Aligned to 256 bytes. Throws Error (kMemory).
  Memory(Kind kind, int64_t bytes);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  Kind kind() const { return kind_; }

  /// The memory that has all of these bytes, or null.
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

/// While one lives, devices work: accesses to what they open do not fault.
class MemoryAccess {
 public:
  MemoryAccess();
  ~MemoryAccess();
  MemoryAccess(const MemoryAccess&) = delete;
  MemoryAccess& operator=(const MemoryAccess&) = delete;

  /// What has this byte.
  static void open(const std::byte* address);
  static void open_all();
};

}  // namespace mtf::cuda::emulator
