// DeviceArray is device memory that a test fills and reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "engine/backend/cuda/device/device.h"

namespace mtf::cuda::testing {

template <class T>
class DeviceArray {
 public:
  /// An array of zeros.
  DeviceArray(Device& device, int64_t size)
      : device_(device),
        bytes_(size * int64_t{sizeof(T)}),
        memory_(device.allocate(bytes_)),
        pinned_(device.allocate_pinned(bytes_)) {}
  DeviceArray(Device& device, const std::vector<T>& values) : DeviceArray(device, std::ssize(values)) {
    set(values);
  }
  ~DeviceArray() { device_.free(memory_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* data() const { return reinterpret_cast<T*>(memory_); }
  std::byte* bytes() const { return memory_; }
  void set(const std::vector<T>& values) {
    std::memcpy(pinned_->data(), values.data(), values.size() * sizeof(T));
    device_.copy(device_.compute(), memory_, pinned_->data(), bytes_);
    device_.wait(device_.compute());
  }
  std::vector<T> get() const {
    device_.copy(device_.compute(), pinned_->data(), memory_, bytes_);
    device_.wait(device_.compute());
    std::vector<T> values(static_cast<size_t>(bytes_) / sizeof(T));
    std::memcpy(values.data(), pinned_->data(), static_cast<size_t>(bytes_));
    return values;
  }

 private:
  Device& device_;
  int64_t bytes_;
  std::byte* memory_;
  std::unique_ptr<PinnedMemory> pinned_;
};

}  // namespace mtf::cuda::testing
