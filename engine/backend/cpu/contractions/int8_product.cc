// Products of 8-bit codes (engine/ops/int8_product.h): tasks are rectangles of the result.
#include "engine/ops/int8_product.h"

#include <algorithm>

#include "engine/backend/cpu/contractions/int8_gemm.h"
#include "engine/backend/cpu/registry/kernel_registry.h"

namespace mtf {
namespace {

static_assert(kColumnsOfBlock == kInt8Columns && kDepthsOfBlock == kInt8Depths);

/// A task has about so many products of codes. Reading a code of the weight takes as long as kProductsPerCode of them.
constexpr int64_t kProductsPerTask = 4 << 20;
constexpr int64_t kProductsPerCode = 8;
/// The most rows of a task: whole tiles of all kernels.
constexpr int64_t kRowsPerTask = 240;
/// Columns of a task are multiples of this: tiles of few rows have as many.
constexpr int64_t kColumnUnit = 8 * kInt8Columns;

/// The entries of one position's slice.
int64_t local_size(const LocalTensor& tensor, const Shape& dimensions) {
  int64_t size = 1;
  for (const Dimension& d : dimensions) size *= tensor.local[*tensor.local.find(d.name)].size;
  return size;
}

class Int8ProductKernel final : public Kernel {
 public:
  explicit Int8ProductKernel(const KernelContext& context) {
    const auto& operation = static_cast<const Int8Product&>(context.operation);
    is_scaled_ = operation.is_scaled();
    rows_ = local_size(context.outputs[0], operation.rows);
    columns_ = local_size(context.outputs[0], operation.columns);
    depth_ = local_size(context.inputs[0], operation.summed);
    in_panels_ = context.inputs[1].local.contains(kBlockColumns);
    const int64_t rows = std::min(rows_, kRowsPerTask), of_column = std::max(rows, kProductsPerCode) * depth_;
    row_tasks_ = (rows_ + kRowsPerTask - 1) / kRowsPerTask;
    columns_per_task_ = std::max<int64_t>(1, kProductsPerTask / (of_column * kColumnUnit)) * kColumnUnit;
    column_tasks_ = (columns_ + columns_per_task_ - 1) / columns_per_task_;
  }

  int64_t tasks() const override { return row_tasks_ * column_tasks_; }
  size_t scratch_bytes() const override {
    return int8_scratch_bytes(std::min(rows_, kRowsPerTask), depth_, in_panels_);
  }

  int64_t run(const KernelCall& call, int64_t begin, int64_t end) const override {
    const Int8Kernels& kernels = int8_kernels(instruction_set());
    int64_t flops = 0;
    for (int64_t task = begin; task < end; ++task) {
      const int64_t row = task % row_tasks_ * kRowsPerTask, column = task / row_tasks_ * columns_per_task_;
      const int64_t rows = std::min(rows_ - row, kRowsPerTask),
                    columns = std::min(columns_ - column, columns_per_task_);
      multiply({.rows = rows,
                .columns = columns,
                .depth = depth_,
                .a = call.input<int8_t>(0) + row * depth_,
                .b = call.input<uint8_t>(1) + column * depth_,
                .in_panels = in_panels_,
                .output = output(call, row, column)},
               call.scratch, kernels);
      flops += 2 * rows * columns * depth_;
    }
    return flops;
  }

 private:
  Int8Output output(const KernelCall& call, int64_t row, int64_t column) const {
    const int64_t at = row * columns_ + column;
    if (!is_scaled_) return {.sums = call.output<int32_t>(0) + at, .row_stride = columns_};
    return {.values = call.output<float>(0) + at,
            .row_stride = columns_,
            .row_scales = call.input<float>(2) + row,
            .column_scales = call.input<float>(3) + column};
  }

  bool is_scaled_, in_panels_;
  int64_t rows_, columns_, depth_;
  int64_t row_tasks_, column_tasks_, columns_per_task_;
};

std::unique_ptr<Kernel> int8_product_kernel(const KernelContext& context) {
  return std::make_unique<Int8ProductKernel>(context);
}

const KernelRegistration registrations[] = {
    {"int8_product", {DType::kInt8}, int8_product_kernel},
    {"int8_sums", {DType::kInt8}, int8_product_kernel},
};

}  // namespace
}  // namespace mtf
