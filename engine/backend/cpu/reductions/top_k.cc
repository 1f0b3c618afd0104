// The largest entries of rows: one pass for k = 1, insertion into a short sorted list for small k, selection among
// those that can be otherwise. Entries are ordered by value with NaN first, then by index, so the result is unique. The
// gradient puts the values back to their places.
#include "engine/ops/top_k.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "engine/backend/cpu/registry/kernel_registry.h"
#include "engine/backend/element.h"
#include "engine/backend/strided.h"
#include "engine/base/dispatch.h"

namespace mtf {
namespace {

/// True if `a` ranks before `b` whatever their indices.
template <class T>
MTF_INLINE bool larger(T a, T b) {
  return a > b || (a != a && b == b);
}

/// Sequences whose maxima are compared side by side.
constexpr int64_t kLanes = 32;

/// The maxima of the entries i, i + kLanes, ... for each lane i (of the first entry where there are fewer). Returns whether
/// there is a NaN.
template <class T>
MTF_INLINE bool lane_maxima(const T* x, int64_t n, Computed<T>* maxima) {
  int32_t nans[kLanes] = {};
  for (int64_t lane = 0; lane < kLanes; ++lane) maxima[lane] = widen(x[lane < n ? lane : 0]);
  for (int64_t i = 0; i + kLanes <= n; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const Computed<T> value = widen(x[i + lane]);
      maxima[lane] = value > maxima[lane] ? value : maxima[lane];
      nans[lane] |= value != value;
    }
  }
  int32_t any = 0;
  for (int lane = 0; lane < kLanes; ++lane) any |= nans[lane];
  for (int64_t i = n / kLanes * kLanes; i < n; ++i) {
    const Computed<T> value = widen(x[i]);
    maxima[0] = value > maxima[0] ? value : maxima[0];
    any |= value != value;
  }
  return any != 0;
}

/// The index of the largest entry, or of the first NaN if there is one.
template <class T>
int64_t largest(const T* x, int64_t n) {
  Computed<T> maxima[kLanes];
  if (dispatched<lane_maxima<T>>(x, n, maxima)) {
    return std::find_if(x, x + n, [](T value) { return widen(value) != widen(value); }) - x;
  }
  const Computed<T> maximum = *std::max_element(maxima, maxima + kLanes);
  return std::find_if(x, x + n, [maximum](T value) { return widen(value) == maximum; }) - x;
}

/// True if one of x[0] ... x[kGroup - 1] is at least `value`, or NaN.
template <int kGroup, class T>
MTF_INLINE bool any_from(const T* x, Computed<T> value) {
  int32_t any = 0;
  for (int i = 0; i < kGroup; ++i) any |= !(widen(x[i]) < value);
  return any != 0;
}

/// The most entries that insert_largest() finds: a lane for each.
constexpr int64_t kInsertionLimit = kLanes;

/// Sets `best` to the indices of the k largest entries, in order, by insertion. The maxima of interleaved sequences tell
/// which size k entries have at least; groups of smaller ones are skipped.
template <class T>
MTF_INLINE void insert_largest(const T* x, int64_t n, int64_t k, int32_t* best) {
  constexpr int kGroup = 64, kPart = 16;
  Computed<T> maxima[kLanes];
  const bool has_least = n >= kGroup && !lane_maxima(x, n, maxima);
  if (has_least) std::nth_element(maxima, maxima + (k - 1), maxima + kLanes, std::greater<>());
  const Computed<T> least = has_least ? maxima[k - 1] : Computed<T>();
  int64_t held = 0;
  const auto insert = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const Computed<T> value = widen(x[i]);
      if (held == k && !larger(value, widen(x[best[k - 1]]))) continue;
      int64_t rank = held < k ? held++ : k - 1;
      for (; rank > 0 && larger(value, widen(x[best[rank - 1]])); --rank) best[rank] = best[rank - 1];
      best[rank] = static_cast<int32_t>(i);
    }
  };
  int64_t i = 0;
  for (; has_least && i + kGroup <= n; i += kGroup) {
    if (!any_from<kGroup>(x + i, least)) continue;
    for (int64_t part = i; part < i + kGroup; part += kPart) {
      if (any_from<kPart>(x + part, least)) insert(part, part + kPart);
    }
  }
  insert(i, n);
}

/// Sets `maxima` to the maxima of interleaved sequences of `depth` entries, which are as many as have room in whole blocks of
/// kLanes of them. Returns their number; 0 if there is a NaN.
template <class T>
MTF_INLINE int64_t sequence_maxima(const T* x, int64_t n, int64_t depth, Computed<T>* maxima) {
  const int64_t block = kLanes * depth;
  int64_t count = 0;
  bool has_nan = false;
  for (int64_t i = 0; i + block <= n; i += block, count += kLanes)
    has_nan |= lane_maxima(x + i, block, maxima + count);
  return has_nan ? 0 : count;
}

/// Sets `indices` to those of the entries that are at least `value`, or NaN, and returns their number.
template <class T>
MTF_INLINE int64_t indices_from(const T* x, int64_t n, Computed<T> value, int32_t* indices) {
  constexpr int kGroup = 64;
  int64_t count = 0;
  const auto collect = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      indices[count] = static_cast<int32_t>(i);
      count += !(widen(x[i]) < value);
    }
  };
  int64_t i = 0;
  for (; i + kGroup <= n; i += kGroup) {
    if (any_from<kGroup>(x + i, value)) collect(i, i + kGroup);
  }
  collect(i, n);
  return count;
}

/// The length of the sequences whose maxima tell which size k of n entries have at least: there are about twice as many.
int64_t sequence_depth(int64_t n, int64_t k) { return n / (2 * k); }

/// Sets the first k of `indices` to those of the k largest entries, in order. `maxima` has room for n / sequence_depth(n, k).
template <class T>
void select_largest(const T* x, int64_t n, int64_t k, int32_t* indices, Computed<T>* maxima) {
  const auto before = [x](int32_t a, int32_t b) {
    const Computed<T> left = widen(x[a]), right = widen(x[b]);
    return larger(left, right) || (!larger(right, left) && a < b);
  };
  int64_t count = n;
  const int64_t depth = sequence_depth(n, k),
                sequences = depth < 2 ? 0 : dispatched<sequence_maxima<T>>(x, n, depth, maxima);
  if (sequences >= k) {
    std::nth_element(maxima, maxima + (k - 1), maxima + sequences, std::greater<>());
    count = dispatched<indices_from<T>>(x, n, maxima[k - 1], indices);
  } else {
    std::iota(indices, indices + n, 0);
  }
  if (k < count) std::nth_element(indices, indices + k, indices + count, before);
  std::sort(indices, indices + k, before);
}

/// The strides of x (or of its gradient) along all dimensions except the one searched.
StridedAxes<1> rows_of(const Shape& shape, int axis) {
  StridedAxes<1> rows;
  const std::vector<int64_t> strides = shape.strides();
  for (int a = 0; a < shape.rank(); ++a) {
    if (a != axis) rows.push_back({shape[a].size, {strides[a]}});
  }
  return joined(rows);
}

template <class T>
class TopKKernel final : public Kernel {
 public:
  explicit TopKKernel(const KernelContext& context) {
    const auto& operation = static_cast<const TopK&>(context.operation);
    const Shape& local = context.inputs[0].local;
    const int axis = *local.find(operation.dimension);
    n_ = local[axis].size;
    stride_ = local.strides()[axis];
    k_ = context.outputs[0].local.dimension(operation.k_dimension).size;
    rows_ = rows_of(local, axis);
    rows_per_task_ = std::max<int64_t>(1, kElementsPerTask / n_);
  }

  int64_t tasks() const override { return (size_of(rows_) + rows_per_task_ - 1) / rows_per_task_; }
  /// Scratch holds the indices of a row, the maxima of sequences and, unless they are contiguous in memory, a copy of its
  /// entries.
  size_t scratch_bytes() const override {
    return index_bytes() + maxima_bytes() + sizeof(T) * static_cast<size_t>(n_);
  }

  int64_t run(const KernelCall& call, int64_t begin, int64_t end) const override {
    const int64_t first = begin * rows_per_task_, last = std::min(end * rows_per_task_, size_of(rows_));
    int64_t row = first;
    for_each_offset(rows_, first, last,
                    [&](const Offsets<1>& at) { run_row(call, call.input<T>(0) + at[0], row++); });
    return 0;
  }

 private:
  static size_t aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }
  size_t index_bytes() const { return aligned(sizeof(int32_t) * static_cast<size_t>(n_)); }
  size_t maxima_bytes() const {
    const int64_t depth = std::max<int64_t>(1, sequence_depth(n_, k_));
    return k_ > kInsertionLimit ? aligned(sizeof(Computed<T>) * static_cast<size_t>(n_ / depth)) : 0;
  }

  void run_row(const KernelCall& call, const T* x, int64_t row) const {
    if (stride_ != 1) {
      T* dense = reinterpret_cast<T*>(call.scratch + index_bytes() + maxima_bytes());
      for (int64_t i = 0; i < n_; ++i) dense[i] = x[i * stride_];
      x = dense;
    }
    auto* indices = reinterpret_cast<int32_t*>(call.scratch);
    if (k_ == 1) {
      indices[0] = static_cast<int32_t>(largest(x, n_));
    } else if (k_ <= kInsertionLimit) {
      dispatched<insert_largest<T>>(x, n_, k_, indices);
    } else {
      select_largest(x, n_, k_, indices, reinterpret_cast<Computed<T>*>(call.scratch + index_bytes()));
    }
    for (int64_t i = 0; i < k_; ++i) {
      call.output<T>(0)[row * k_ + i] = x[indices[i]];
      call.output<int32_t>(1)[row * k_ + i] = indices[i];
    }
  }

  int64_t n_, stride_, k_, rows_per_task_;
  StridedAxes<1> rows_;
};

template <class T>
std::unique_ptr<Kernel> top_k_kernel(const KernelContext& context) {
  return std::make_unique<TopKKernel<T>>(context);
}

/// Clears a row of dx, then writes each value where it came from if that is in this position's slice.
template <class T>
std::unique_ptr<Kernel> top_k_gradient_kernel(const KernelContext& context) {
  const auto& operation = static_cast<const TopKGradient&>(context.operation);
  const Shape& local = context.outputs[0].local;
  const int axis = *local.find(operation.dimension);
  const int64_t n = local[axis].size, stride = local.strides()[axis];
  const int64_t k = context.inputs[0].local.dimension(operation.k_dimension).size;
  const StridedAxes<1> rows = rows_of(local, axis);
  return make_kernel(size_of(rows), std::max<int64_t>(1, kElementsPerTask / n),
                     [=](const KernelCall& call, int64_t begin, int64_t end) {
                       const int64_t first = call.outputs[0].begin[axis];
                       int64_t row = begin;
                       for_each_offset(rows, begin, end, [&](const Offsets<1>& at) {
                         T* dx = call.output<T>(0) + at[0];
                         for (int64_t i = 0; i < n; ++i) dx[i * stride] = T{};
                         for (int64_t i = row * k; i < (row + 1) * k; ++i) {
                           const int64_t index = call.input<int32_t>(1)[i] - first;
                           if (index >= 0 && index < n) dx[index * stride] = call.input<T>(0)[i];
                         }
                         ++row;
                       });
                     });
}

const KernelRegistration f32("top_k", {DType::kFloat32}, top_k_kernel<float>);
const KernelRegistration bf16("top_k", {DType::kBFloat16}, top_k_kernel<BFloat16>);
const KernelRegistration f64("top_k", {DType::kFloat64}, top_k_kernel<double>);
const KernelRegistration i32("top_k", {DType::kInt32}, top_k_kernel<int32_t>);
const KernelRegistration gradient_f32("top_k_gradient", {DType::kFloat32}, top_k_gradient_kernel<float>);
const KernelRegistration gradient_bf16("top_k_gradient", {DType::kBFloat16}, top_k_gradient_kernel<BFloat16>);
const KernelRegistration gradient_f64("top_k_gradient", {DType::kFloat64}, top_k_gradient_kernel<double>);

}  // namespace
}  // namespace mtf
