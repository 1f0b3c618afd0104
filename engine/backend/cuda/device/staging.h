// Staging copies between the host's memory and a device's, in the order of the compute stream, through pinned
// memory in two halves: the host copies one while the device copies the other. May be called from any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "engine/backend/cuda/device/device.h"

namespace mtf::cuda {

class Staging {
 public:
  explicit Staging(Device& device) : device_(device) {}
  /// The pinned memory that an object takes, at most.
  static int64_t pinned_bytes();
  /// Returns as soon as `from` may change. It waits for the device only if it has to reuse a half that the
  /// device is still reading.
  void write(std::byte* to, const std::byte* from, int64_t bytes);
  /// Waits for what was enqueued and for the copy.
  void read(std::byte* to, const std::byte* from, int64_t bytes);

 private:
  struct Half {
    std::unique_ptr<PinnedMemory> memory;
    std::unique_ptr<Event> copied;
  };

  /// Allocates the half when it is first used.
  Half& prepared(Half& half, int64_t bytes);

  Device& device_;
  std::mutex mutex_;
  std::array<Half, 2> outgoing_, incoming_;
  int filling_ = 0;     ///< index of the half of outgoing_ that is written next
  int64_t filled_ = 0;  ///< bytes used in that half
};

}  // namespace mtf::cuda
