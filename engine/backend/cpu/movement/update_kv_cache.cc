// update_kv_cache on the CPU: each hypothesis takes over the cache of its parent, in place. Only where hypotheses take over
// each other's caches in a circle does one of them go through scratch memory.
#include "engine/ops/update_kv_cache.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "engine/backend/cpu/registry/kernel_registry.h"
#include "engine/backend/strided.h"

namespace mtf {
namespace {

/// A task updates the cache of one text (and head).
class UpdateKvCacheKernel final : public Kernel {
 public:
  explicit UpdateKvCacheKernel(const KernelContext& context)
      : bytes_(static_cast<int64_t>(size_of(context.inputs[0].dtype))) {
    const auto& operation = static_cast<const UpdateKvCache&>(context.operation);
    const Shape& cache = context.inputs[0].local;
    const auto stride = [&](size_t input, const std::string& dimension) -> int64_t {
      const Shape& shape = context.inputs[input].local;
      const auto axis = shape.find(dimension);
      return axis ? shape.strides()[static_cast<size_t>(*axis)] : 0;
    };
    for (const Dimension& d : cache) {
      if (d.name == operation.rows || d.name == operation.memory) continue;
      places_.push_back(
          {d.size, {stride(0, d.name), stride(1, d.name), stride(2, d.name), stride(3, d.name)}});
    }
    rows_ = cache.dimension(operation.rows).size;
    memory_ = cache.dimension(operation.memory).size;
    row_stride_ = stride(0, operation.rows);
    memory_stride_ = stride(0, operation.memory);
    entry_stride_ = stride(1, operation.rows);
    parent_stride_ = stride(3, operation.rows);
    join_runs();
  }

  int64_t tasks() const override { return size_of(places_); }
  /// The parents, and one row.
  size_t scratch_bytes() const override {
    return static_cast<size_t>(rows_) * sizeof(int64_t) + static_cast<size_t>(memory_ * run_ * bytes_);
  }

  int64_t run(const KernelCall& call, int64_t begin, int64_t end) const override {
    for_each_offset(places_, begin, end, [&](const Offsets<4>& at) {
      const std::byte* x = call.input<std::byte>(0) + at[0] * bytes_;
      std::byte* y = call.output<std::byte>(0) + at[0] * bytes_;
      if (x != y) copy_all(x, y);
      const int64_t position = call.input<int32_t>(2)[at[2]];
      reorder(y, call.input<int32_t>(3) + at[3], call.input<int32_t>(4) + at[3],
              std::clamp<int64_t>(position, 0, memory_), call.scratch);
      if (position < 0 || position >= memory_) return;
      const std::byte* entry = call.input<std::byte>(1) + at[1] * bytes_;
      for (int64_t row = 0; row < rows_; ++row) {
        std::memcpy(y + (row * row_stride_ + position * memory_stride_) * bytes_,
                    entry + row * entry_stride_ * bytes_, static_cast<size_t>(run_ * bytes_));
      }
    });
    return 0;
  }

 private:
  /// Joins the innermost elements that are contiguous in cache and entry into runs.
  void join_runs() {
    places_ = joined(places_);
    if (places_.empty() || places_.back().strides != Offsets<4>{1, 1, 0, 0}) return;
    const int64_t size = places_.back().size;
    run_ = std::gcd(size, std::min(row_stride_, memory_stride_));
    places_.back() = {size / run_, {run_, run_, 0, 0}};
    places_ = joined(places_);
  }

  void copy_all(const std::byte* x, std::byte* y) const {
    for (int64_t row = 0; row < rows_; ++row)
      copy_row(x + row * row_stride_ * bytes_, memory_stride_, y + row * row_stride_ * bytes_, memory_stride_,
               memory_);
  }

  /// Copies `count` entries.
  void copy_row(const std::byte* from, int64_t from_stride, std::byte* to, int64_t to_stride,
                int64_t count) const {
    if (from_stride == run_ && to_stride == run_) {
      std::memcpy(to, from, static_cast<size_t>(count * run_ * bytes_));
      return;
    }
    for (int64_t m = 0; m < count; ++m)
      std::memcpy(to + m * to_stride * bytes_, from + m * from_stride * bytes_,
                  static_cast<size_t>(run_ * bytes_));
  }

  /// Replaces the first `count` entries of each row of y, but those in common, by those of its parent. A row is overwritten
  /// when no other one needs it any more; what remains are rows that continue each other in a circle.
  void reorder(std::byte* y, const int32_t* parents, const int32_t* common, int64_t count,
               std::byte* scratch) const {
    auto* parent = reinterpret_cast<int64_t*>(scratch);
    std::byte* saved = scratch + rows_ * static_cast<int64_t>(sizeof(int64_t));
    for (int64_t row = 0; row < rows_; ++row) {
      const int64_t given = parents[row * parent_stride_];
      parent[row] = given >= 0 && given < rows_ ? given : row;
    }
    const auto place = [&](int64_t row) { return y + row * row_stride_ * bytes_; };
    const auto copy_to = [&](int64_t row, const std::byte* from, int64_t from_stride) {
      const int64_t first = std::clamp<int64_t>(common[row * parent_stride_], 0, count);
      copy_row(from + first * from_stride * bytes_, from_stride, place(row) + first * memory_stride_ * bytes_,
               memory_stride_, count - first);
    };
    const auto move_to = [&](int64_t row) {
      copy_to(row, place(parent[row]), memory_stride_);
      return std::exchange(parent[row], row);
    };
    const auto is_needed = [&](int64_t row) {
      for (int64_t other = 0; other < rows_; ++other) {
        if (other != row && parent[other] == row) return true;
      }
      return false;
    };
    for (bool moved = true; moved;) {
      moved = false;
      for (int64_t row = 0; row < rows_; ++row) {
        if (parent[row] == row || is_needed(row)) continue;
        move_to(row);
        moved = true;
      }
    }
    for (int64_t first = 0; first < rows_; ++first) {
      if (parent[first] == first) continue;
      copy_row(place(first), memory_stride_, saved, run_, count);
      int64_t row = first;
      while (parent[row] != first) row = move_to(row);
      copy_to(row, saved, run_);
      parent[row] = row;
    }
  }

  int64_t bytes_;
  StridedAxes<4> places_;  ///< strides of cache, entry, position and parent, whose are also those of `common`
  int64_t rows_ = 1, memory_ = 1, run_ = 1;
  int64_t row_stride_ = 0, memory_stride_ = 0, entry_stride_ = 0, parent_stride_ = 0;
};

const KernelRegistration kernels("update_kv_cache", kAllTypes,
                                 [](const KernelContext& context) -> std::unique_ptr<Kernel> {
                                   return std::make_unique<UpdateKvCacheKernel>(context);
                                 });

}  // namespace
}  // namespace mtf
