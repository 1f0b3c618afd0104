// Copies between the host's own memory and a device's, in the order of the compute stream, through pinned
// memory that is used in halves: one is copied by the host while the device copies the other. From any
// thread.
#pragma once

#include <array>
#include <memory>
#include <mutex>

#include "engine/backend/cuda/device/device.h"

namespace mtf::cuda {

class Staging {
 public:
  explicit Staging(Device& device) : device_(device) {}
  /// Returns when `from` may change. Waits for the device only when as much was written before as a half
  /// holds.
  void write(std::byte* to, const std::byte* from, int64_t bytes);
  /// Waits for what was enqueued and for the bytes.
  void read(std::byte* to, const std::byte* from, int64_t bytes);

 private:
  struct Half {
    std::unique_ptr<PinnedMemory> memory;
    std::unique_ptr<Event> copied;
  };

  /// Made when first used.
  Half& prepared(Half& half, int64_t bytes);

  Device& device_;
  std::mutex mutex_;
  std::array<Half, 2> outgoing_, incoming_;
  int filling_ = 0;     ///< the half of outgoing_ that writes go to
  int64_t filled_ = 0;  ///< bytes of it
};

}  // namespace mtf::cuda
