// Kernels of expert_product and expert_outer_product on the matrix product of gemm.h, which reads the rows of an expert
// where they are. A task owns some columns of one expert's product: results do not depend on the number of threads.
// Tasks of one expert that run one after the other are joined, so that its rows are packed once.
#include "engine/ops/expert_product.h"

#include <algorithm>
#include <type_traits>

#include "engine/backend/cpu/contractions/gemm.h"
#include "engine/backend/cpu/registry/kernel_registry.h"
#include "engine/backend/element.h"
#include "engine/backend/expert_rows.h"

namespace mtf {
namespace {

/// Columns of a task: fewer where there are few experts to share out.
constexpr int64_t kMostColumns = 512, kLeastColumns = 128, kWantedTasks = 32;
/// Rows that are multiplied at a time, and, in an outer product, summed at a time.
constexpr int64_t kRowsAtOnce = 1024, kSummedAtOnce = 384;
/// The most elements of a product that is not made in place.
constexpr int64_t kMostElements = 384 * kMostColumns;

int64_t columns_per_task(int64_t columns, int64_t experts) {
  const int64_t parts = std::max<int64_t>(1, kWantedTasks / experts);
  const int64_t wanted = ((columns + parts - 1) / parts + 63) / 64 * 64;
  return std::clamp(wanted, std::min(columns, kLeastColumns), std::min(columns, kMostColumns));
}

/// Visits the rows of experts in the order of groups, up to `most` at a time.
class RowChunks {
 public:
  RowChunks(const ExpertRows& rows, const int32_t* offsets, int64_t expert, int64_t most)
      : rows_(rows), offsets_(offsets), expert_(expert), most_(most) {
    enter();
  }

  /// Writes the next row numbers; returns how many, 0 at the end.
  int64_t next(int64_t* numbers) {
    int64_t n = 0;
    while (n < most_ && group_ < rows_.groups) {
      for (; n < most_ && at_ < end_; ++at_) numbers[n++] = first_ + at_;
      if (at_ < end_) break;
      ++group_;
      enter();
    }
    return n;
  }

 private:
  void enter() {
    if (group_ >= rows_.groups) return;
    const int32_t* range = rows_.range(offsets_, expert_, group_);
    at_ = range[0];
    end_ = range[1];
    first_ = rows_.segment(expert_, group_) * rows_.capacity;
  }

  const ExpertRows& rows_;
  const int32_t* offsets_;
  int64_t expert_, most_, group_ = 0, at_ = 0, end_ = 0, first_ = 0;
};

template <class T>
class ExpertProductKernel final : public Kernel {
 public:
  explicit ExpertProductKernel(const KernelContext& context)
      : rows_(context.inputs[0], context.inputs[2]),
        in_bfloat16_(static_cast<const ExpertProduct&>(context.operation).precision ==
                     MatmulPrecision::kBFloat16) {
    const LocalTensor &x = context.inputs[0], &w = context.inputs[1], &y = context.outputs[0];
    const Dimension in = x.global[x.global.rank() - 1];
    const size_t in_axis = w.global[1] == in ? 1 : 2, out_axis = 3 - in_axis;
    in_ = x.local[x.local.rank() - 1].size;
    out_ = y.local[y.local.rank() - 1].size;
    expert_stride_ = w.strides[0];
    in_stride_ = w.strides[in_axis];
    out_stride_ = w.strides[out_axis];
    columns_ = columns_per_task(out_, rows_.experts());
    blocks_ = (out_ + columns_ - 1) / columns_;
    most_columns_ = kInPlace ? out_ : columns_;
    rows_at_once_ = kInPlace ? kRowsAtOnce : std::clamp<int64_t>(kMostElements / columns_, 1, kRowsAtOnce);
  }

  int64_t tasks() const override { return rows_.experts() * blocks_ + rows_.segments(); }
  size_t scratch_bytes() const override {
    return sizeof(int64_t) * static_cast<size_t>(3 * kRowsAtOnce) +
           sizeof(C) *
               static_cast<size_t>(product_elements() + product_scratch(rows_at_once_, most_columns_, in_));
  }

  int64_t run(const KernelCall& call, int64_t begin, int64_t end) const override {
    int64_t flops = 0;
    for (int64_t task = begin; task < end;) {
      if (task >= rows_.experts() * blocks_) {
        clear_rest(call, task++ - rows_.experts() * blocks_);
        continue;
      }
      const int64_t block = task % blocks_, joined = kInPlace ? std::min(end - task, blocks_ - block) : 1;
      flops += multiply_expert(call, task / blocks_, block * columns_,
                               std::min(joined * columns_, out_ - block * columns_));
      task += joined;
    }
    return flops;
  }

 private:
  using C = Computed<T>;
  static constexpr bool kInPlace = std::is_same_v<T, C>;  ///< products are made where they stay

  int64_t product_elements() const { return kInPlace ? 0 : (rows_at_once_ * columns_ + 15) / 16 * 16; }

  int64_t multiply_expert(const KernelCall& call, int64_t expert, int64_t column, int64_t columns) const {
    auto* numbers = reinterpret_cast<int64_t*>(call.scratch);
    int64_t *begins = numbers + kRowsAtOnce, *results = begins + kRowsAtOnce;
    C* product = reinterpret_cast<C*>(results + kRowsAtOnce);
    const SummedAxis depth{in_, 1, in_stride_};
    RowChunks chunks(rows_, call.input<int32_t>(2), expert, rows_at_once_);
    int64_t flops = 0;
    while (const int64_t n = chunks.next(numbers)) {
      for (int64_t i = 0; i < n; ++i) {
        begins[i] = numbers[i] * in_;
        results[i] = numbers[i] * out_;
      }
      Product<T> rows{.rows = n,
                      .columns = columns,
                      .summed = {&depth, 1},
                      .a = call.input<T>(0),
                      .b = call.input<T>(1) + expert * expert_stride_ + column * out_stride_,
                      .b_column_stride = out_stride_,
                      .c = product,
                      .c_row_stride = columns,
                      .a_rows = begins,
                      .in_bfloat16 = in_bfloat16_};
      if constexpr (kInPlace) {
        rows.c = call.output<T>(0) + column;
        rows.c_rows = results;
      }
      multiply(rows, product + product_elements());
      for (int64_t i = 0; !kInPlace && i < n; ++i)
        std::transform(product + i * columns, product + (i + 1) * columns,
                       call.output<T>(0) + results[i] + column, [](C value) { return narrow<T>(value); });
      flops += 2 * n * columns * in_;
    }
    return flops;
  }

  /// Zeros in the rows of nobody, which stand behind those of the experts.
  void clear_rest(const KernelCall& call, int64_t segment) const {
    const int32_t used = call.input<int32_t>(2)[segment * (rows_.per_block + 1) + rows_.per_block];
    T* y = call.output<T>(0) + segment * rows_.capacity * out_;
    std::fill(y + used * out_, y + rows_.capacity * out_, T{});
  }

  ExpertRows rows_;
  bool in_bfloat16_;
  int64_t in_, out_, expert_stride_, in_stride_, out_stride_, columns_, blocks_;
  int64_t most_columns_, rows_at_once_;  ///< that are multiplied at a time
};

/// Writes elements of type Out, which is T or float32; sums of the same type are made in place.
template <class T, class Out>
class ExpertOuterProductKernel final : public Kernel {
 public:
  explicit ExpertOuterProductKernel(const KernelContext& context)
      : rows_(context.inputs[0], context.inputs[2]),
        in_bfloat16_(static_cast<const ExpertOuterProduct&>(context.operation).precision ==
                     MatmulPrecision::kBFloat16) {
    const Shape &x = context.inputs[0].local, &y = context.inputs[1].local;
    in_ = x[x.rank() - 1].size;
    out_ = y[y.rank() - 1].size;
    height_ = std::min(in_, kMostColumns);
    width_ = columns_per_task(out_, rows_.experts());
    across_ = (out_ + width_ - 1) / width_;
    down_ = (in_ + height_ - 1) / height_;
  }

  int64_t tasks() const override { return rows_.experts() * across_ * down_; }
  size_t scratch_bytes() const override {
    return sizeof(int64_t) * kSummedAtOnce +
           sizeof(C) * static_cast<size_t>(sums() + product_scratch(kInPlace ? in_ : height_,
                                                                    kInPlace ? out_ : width_, kSummedAtOnce));
  }

  /// Joins tasks of one expert that make whole rows, or parts of the same rows.
  int64_t run(const KernelCall& call, int64_t begin, int64_t end) const override {
    int64_t flops = 0;
    for (int64_t task = begin; task < end;) {
      const int64_t parts = across_ * down_, part = task % parts, last = std::min(parts, part + end - task);
      const int64_t down = part / across_, across = part % across_;
      const int64_t rows = kInPlace && across == 0 ? std::max<int64_t>(1, last / across_ - down) : 1;
      const int64_t columns = kInPlace ? std::min(across_ - across, last - part) : 1;
      const int64_t row = down * height_, column = across * width_;
      flops += multiply_part(call, task / parts, row, std::min(rows * height_, in_ - row), column,
                             std::min(columns * width_, out_ - column));
      task += rows * columns;
    }
    return flops;
  }

 private:
  using C = Computed<T>;
  static constexpr bool kInPlace = std::is_same_v<Out, C>;  ///< sums are made where they stay

  int64_t sums() const { return kInPlace ? 0 : (height_ * width_ + 15) / 16 * 16; }

  int64_t multiply_part(const KernelCall& call, int64_t expert, int64_t row, int64_t height, int64_t column,
                        int64_t width) const {
    auto* numbers = reinterpret_cast<int64_t*>(call.scratch);
    C* sum = reinterpret_cast<C*>(numbers + kSummedAtOnce);
    Out* to = call.output<Out>(0) + (expert * in_ + row) * out_ + column;
    C* scratch = sum + sums();
    int64_t stride = width;
    if constexpr (kInPlace) {
      sum = to;
      stride = out_;
    }
    RowChunks chunks(rows_, call.input<int32_t>(2), expert, kSummedAtOnce);
    int64_t all = 0;
    while (const int64_t n = chunks.next(numbers)) {
      const SummedAxis depth{n, in_, out_, numbers};
      multiply(Product<T>{.rows = height,
                          .columns = width,
                          .summed = {&depth, 1},
                          .a = call.input<T>(0) + row,
                          .a_row_stride = 1,
                          .b = call.input<T>(1) + column,
                          .b_column_stride = 1,
                          .c = sum,
                          .c_row_stride = stride,
                          .adds = all > 0,
                          .in_bfloat16 = in_bfloat16_},
               scratch);
      all += n;
    }
    for (int64_t i = 0; i < height; ++i) {
      if (all == 0) {
        std::fill_n(to + i * out_, width, Out{});
      } else if constexpr (!kInPlace) {
        std::transform(sum + i * stride, sum + i * stride + width, to + i * out_,
                       [](C value) { return narrow<Out>(value); });
      }
    }
    return 2 * all * height * width;
  }

  ExpertRows rows_;
  bool in_bfloat16_;
  int64_t in_, out_, height_, width_, across_, down_;
};

template <class T>
std::unique_ptr<Kernel> expert_product_kernel(const KernelContext& context) {
  return std::make_unique<ExpertProductKernel<T>>(context);
}

template <class T>
std::unique_ptr<Kernel> expert_outer_product_kernel(const KernelContext& context) {
  if (context.outputs[0].dtype == DTypeOf<T>::value)
    return std::make_unique<ExpertOuterProductKernel<T, T>>(context);
  return std::make_unique<ExpertOuterProductKernel<T, Computed<T>>>(context);
}

template <class T>
struct ExpertProductKernels {
  static constexpr DType dtype = DTypeOf<T>::value;
  KernelRegistration product{"expert_product", {dtype}, expert_product_kernel<T>};
  KernelRegistration outer{"expert_outer_product", {dtype}, expert_outer_product_kernel<T>};
};
const ExpertProductKernels<float> expert_product_f32;
const ExpertProductKernels<BFloat16> expert_product_bf16;
const ExpertProductKernels<double> expert_product_f64;

}  // namespace
}  // namespace mtf
