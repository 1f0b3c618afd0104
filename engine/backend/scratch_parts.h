// Parts of the scratch memory of a kernel.
//
//   ScratchParts count(nullptr), parts(call.scratch);
//   float* sums = parts.take<float>(n);          // after the parts taken before
#pragma once

#include <cstddef>
#include <cstdint>

namespace mtf {

/// Takes consecutive parts of a kernel's scratch memory. With a null pointer it only counts their bytes.
class ScratchParts {
 public:
  explicit ScratchParts(std::byte* scratch) : scratch_(scratch) {}
  template <class T>
  T* take(int64_t elements) {
    T* part = reinterpret_cast<T*>(scratch_ + bytes_);
    bytes_ += (static_cast<size_t>(elements) * sizeof(T) + 63) / 64 * 64;
    return part;
  }
  size_t bytes() const { return bytes_; }

 private:
  std::byte* scratch_;
  size_t bytes_ = 0;
};

}  // namespace mtf
