// Rows of memory that will be needed soon: they are fetched into L2 a few at a time, while something else is computed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace mtf {

class PrefetchedRows {
 public:
  PrefetchedRows() = default;
  /// `stride` and `columns`: in elements.
  template <class T>
  PrefetchedRows(const T* data, int64_t rows, int64_t stride, int64_t columns)
      : data_(reinterpret_cast<const std::byte*>(data)),
        rows_(rows),
        stride_(stride * static_cast<int64_t>(sizeof(T))),
        bytes_(columns * static_cast<int64_t>(sizeof(T))) {}

  /// The rows that have not been fetched.
  int64_t rows() const { return rows_; }

  /// Fetches up to n of them.
  void fetch(int64_t n) {
    for (n = std::min(n, rows_), rows_ -= n; n > 0; --n, data_ += stride_) {
      for (int64_t i = 0; i < bytes_; i += kLineBytes) __builtin_prefetch(data_ + i, 0, 2);
    }
  }

 private:
  static constexpr int64_t kLineBytes = 64;

  const std::byte* data_ = nullptr;
  int64_t rows_ = 0, stride_ = 0, bytes_ = 0;
};

}  // namespace mtf
