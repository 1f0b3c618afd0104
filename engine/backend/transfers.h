// Transfers between the memory of the host and that of a device, while the device computes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace mtf {

/// A part of a block of memory.
struct BlockPart {
  int64_t begin = 0;
  int64_t bytes = 0;
};

/// Sends blocks of bytes to a fixed place in a device's memory. There are two buffers in the memory of the host
/// and two in that of the device: one block is filled and copied while the device works with the one before.
class BlockTransfer {
 public:
  virtual ~BlockTransfer() = default;
  /// The host memory of the block that is sent next, with undefined content. Waits until the device has copied
  /// the block before the last one.
  virtual std::byte* block() = 0;
  /// Sends parts of that block. They reach their place after the work that was enqueued before and before the
  /// work that is enqueued afterwards.
  virtual void send(std::span<const BlockPart> parts) = 0;
};

enum class TransferDirection { kToHost, kToDevice };

/// Copies between the memory of a device and page-locked memory of the host (Backend::allocate_on_host) while the device
/// computes. Both calls may be recorded, if the same recording has both.
class MemoryTransfer {
 public:
  struct Part {
    std::byte* to = nullptr;
    const std::byte* from = nullptr;
    int64_t bytes = 0;
  };
  virtual ~MemoryTransfer() = default;
  /// Begins to copy, after the work that was enqueued before.
  virtual void begin() = 0;
  /// Makes work that is enqueued from now on begin after the copies.
  virtual void hold_back() = 0;
};

/// Memory that is copied.
using CopySources = std::vector<std::span<const std::byte>>;

/// The offset of each source in a block that holds them all, aligned to 64 bytes; the last element is the size
/// of the block.
std::vector<int64_t> packed_offsets(const CopySources& sources);

/// How the copies of a HostCopy and the work of the device are ordered.
enum class CopyOrder {
  kInLine,      ///< work that is enqueued afterwards begins after the copies
  kConcurrent,  ///< work that is enqueued afterwards runs at the same time, until hold_back()
};

/// Copies parts of a device's memory to the host.
class HostCopy {
 public:
  virtual ~HostCopy() = default;
  /// Begins to copy, after the work that was enqueued before.
  virtual void begin() = 0;
  /// Makes work that is enqueued from now on begin after the copies. With CopyOrder::kConcurrent it must be
  /// called before work that changes the sources is enqueued.
  virtual void hold_back() = 0;
  /// Waits for the copies. Any thread may call it.
  virtual void wait() = 0;
  /// The copy of source number `source`, aligned to 64 bytes; valid from wait() until begin().
  virtual const std::byte* part(size_t source) const = 0;
};

}  // namespace mtf
