// Readers and writers that present operands as blocks of computed values. A kernel's inner loop is written
// once, over dense arrays of float, double or integers; operands that are stored otherwise (bfloat16,
// strided, one repeated value) pass through a small buffer in L1.
//
//   BlockReader<T> a(data, stride);
//   BlockWriter<T> y(result);
//   for_each_block(count, [&](int64_t i, int64_t n) { loop(a.read(i, n), y.begin(i), n); y.end(i, n); });
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "engine/backend/element.h"
#include "engine/backend/strided.h"
#include "engine/base/dispatch.h"

namespace mtf {

inline constexpr int64_t kBlock = 256;

template <class Visit>
void for_each_block(int64_t count, Visit&& visit) {
  for (int64_t i = 0; i < count; i += kBlock) visit(i, std::min(kBlock, count - i));
}

/// Calls visit(offsets, count) for the runs along the last axis that make up the entries begin .. end - 1
/// (row-major).
template <int N, class Visit>
void for_each_run(const StridedAxes<N>& axes, int64_t begin, int64_t end, Visit&& visit) {
  const int64_t inner = axes.empty() ? 1 : axes.back().size;
  while (begin < end) {
    const int64_t count = std::min(end - begin, inner - begin % inner);
    visit(offsets_of(axes, begin), count);
    begin += count;
  }
}

/// Converts `count` elements of bfloat16 to float, and back, with vectorised loops.
void widen_block(const BFloat16* x, float* y, int64_t count);
void narrow_block(const float* x, BFloat16* y, int64_t count);

template <class T>
class BlockReader {
 public:
  BlockReader(const T* data, int64_t stride) : data_(data), stride_(stride) {}

  /// The elements i .. i + n - 1, with n <= kBlock; valid until the next call.
  const Computed<T>* read(int64_t i, int64_t n) {
    if constexpr (std::is_same_v<T, Computed<T>>) {
      if (stride_ == 1) return data_ + i;
    } else if (stride_ == 1) {
      widen_block(data_ + i, buffer_, n);
      return buffer_;
    }
    if (stride_ != 0) {
      for (int64_t k = 0; k < n; ++k) buffer_[k] = widen(data_[(i + k) * stride_]);
    } else if (filled_ < n) {
      std::fill(buffer_, buffer_ + n, widen(*data_));
      filled_ = n;
    }
    return buffer_;
  }

 private:
  const T* data_;
  int64_t stride_;
  int64_t filled_ = 0;
  alignas(64) Computed<T> buffer_[kBlock];
};

/// Writes dense results: write to begin(i), then call end(i, n).
template <class T>
class BlockWriter {
 public:
  explicit BlockWriter(T* data) : data_(data) {}

  Computed<T>* begin(int64_t i) {
    if constexpr (kDirect) {
      return data_ + i;
    } else {
      return buffer_;
    }
  }
  void end(int64_t i, int64_t n) {
    if constexpr (!kDirect) narrow_block(buffer_, data_ + i, n);
  }

 private:
  static constexpr bool kDirect = std::is_same_v<T, Computed<T>>;
  T* data_;
  alignas(64) Computed<T> buffer_[kDirect ? 1 : kBlock];
};

}  // namespace mtf
