// Kernels of the operations that move whole runs of elements along one dimension: concat, split, stack,
// unstack, slice, pad, shift. Elements are copied as bytes, so one kernel serves every type. The larger side
// is treated as a sequence of rows (one for each index before the dimension), each made of consecutive
// pieces; tasks are ranges of its elements.
#include <algorithm>
#include <cstring>
#include <vector>

#include "engine/backend/cpu/registry/kernel_registry.h"
#include "engine/base/check.h"
#include "engine/ops/concat.h"
#include "engine/ops/shift.h"
#include "engine/ops/slice.h"
#include "engine/ops/stack.h"

namespace mtf {
namespace {

/// A part of a piece: `count` elements that begin at `in_piece` within row `row` of the piece, and at
/// `in_rows` in the sequence of rows.
struct Run {
  int64_t row, piece, in_piece, in_rows, count;
};

/// Cuts elements [begin, end) of the sequence of rows at the ends of pieces. `ends` are the ends of the
/// pieces within a row.
template <class Visit>
void for_each_run(const std::vector<int64_t>& ends, int64_t begin, int64_t end, Visit visit) {
  const int64_t pieces = static_cast<int64_t>(ends.size());
  int64_t row = begin / ends.back(), at = begin % ends.back();
  int64_t piece = std::upper_bound(ends.begin(), ends.end(), at) - ends.begin();
  while (begin < end) {
    const int64_t start = piece == 0 ? 0 : ends[piece - 1];
    const int64_t count = std::min(end - begin, ends[piece] - at);
    if (count > 0) visit(Run{row, piece, at - start, begin, count});
    begin += count;
    at += count;
    if (++piece == pieces) {
      piece = 0;
      at = 0;
      ++row;
    }
  }
}

void copy_bytes(std::byte* to, const std::byte* from, int64_t count) {
  if (count == 4) {
    std::memcpy(to, from, 4);
  } else if (count == 8) {
    std::memcpy(to, from, 8);
  } else {
    std::memcpy(to, from, static_cast<size_t>(count));
  }
}

/// The number of elements of `tensor` with the same index before `dimension`, and of those that also have the
/// same index along it.
struct RowSizes {
  int64_t row, inner;

  RowSizes(const LocalTensor& tensor, std::string_view dimension) {
    const int axis = *tensor.local.find(dimension);
    inner = tensor.local.strides()[axis];
    row = inner * tensor.local[axis].size;
  }
};

/// The ends of the pieces into which `parts` divide each row of `whole`.
std::vector<int64_t> piece_ends(const LocalTensor& whole, const std::vector<LocalTensor>& parts,
                                std::string_view dimension) {
  const int64_t rows = whole.local.size() / RowSizes(whole, dimension).row;
  std::vector<int64_t> ends;
  for (const LocalTensor& part : parts)
    ends.push_back((ends.empty() ? 0 : ends.back()) + part.local.size() / rows);
  return ends;
}

/// concat and stack: the inputs are the pieces of the output's rows.
template <class Join>
std::unique_ptr<Kernel> join_kernel(const KernelContext& context) {
  const auto& operation = static_cast<const Join&>(context.operation);
  const int64_t bytes = static_cast<int64_t>(size_of(context.outputs[0].dtype));
  const std::vector<int64_t> ends = piece_ends(context.outputs[0], context.inputs, operation.dimension);
  return make_kernel(context.outputs[0].local.size(), kElementsPerTask,
                     [=](const KernelCall& call, int64_t begin, int64_t end) {
                       std::byte* y = call.output<std::byte>(0);
                       for_each_run(ends, begin, end, [&](const Run& run) {
                         const int64_t length = ends[run.piece] - (run.piece == 0 ? 0 : ends[run.piece - 1]);
                         const std::byte* x = call.input<std::byte>(static_cast<int>(run.piece));
                         copy_bytes(y + run.in_rows * bytes, x + (run.row * length + run.in_piece) * bytes,
                                    run.count * bytes);
                       });
                     });
}

/// split and unstack: the outputs are the pieces of the input's rows.
template <class Cut>
std::unique_ptr<Kernel> cut_kernel(const KernelContext& context) {
  const auto& operation = static_cast<const Cut&>(context.operation);
  const int64_t bytes = static_cast<int64_t>(size_of(context.inputs[0].dtype));
  const std::vector<int64_t> ends = piece_ends(context.inputs[0], context.outputs, operation.dimension);
  return make_kernel(context.inputs[0].local.size(), kElementsPerTask,
                     [=](const KernelCall& call, int64_t begin, int64_t end) {
                       const std::byte* x = call.input<std::byte>(0);
                       for_each_run(ends, begin, end, [&](const Run& run) {
                         const int64_t length = ends[run.piece] - (run.piece == 0 ? 0 : ends[run.piece - 1]);
                         std::byte* y = call.output<std::byte>(static_cast<int>(run.piece));
                         copy_bytes(y + (run.row * length + run.in_piece) * bytes, x + run.in_rows * bytes,
                                    run.count * bytes);
                       });
                     });
}

/// One piece of an output row: elements copied from the input's row, or zeros.
struct Source {
  int64_t end;   ///< end of the piece within the output's row
  int64_t from;  ///< first element within the input's row, or kZeros
};
constexpr int64_t kZeros = -1;

std::unique_ptr<Kernel> rearranging_kernel(const KernelContext& context, int64_t input_row,
                                           const std::vector<Source>& sources) {
  const int64_t bytes = static_cast<int64_t>(size_of(context.outputs[0].dtype));
  std::vector<int64_t> ends;
  for (const Source& source : sources) ends.push_back(source.end);
  return make_kernel(context.outputs[0].local.size(), kElementsPerTask,
                     [=](const KernelCall& call, int64_t begin, int64_t end) {
                       const std::byte* x = call.input<std::byte>(0);
                       for_each_run(ends, begin, end, [&](const Run& run) {
                         std::byte* y = call.output<std::byte>(0) + run.in_rows * bytes;
                         const int64_t from = sources[run.piece].from;
                         if (from == kZeros) {
                           std::memset(y, 0, static_cast<size_t>(run.count * bytes));
                         } else {
                           copy_bytes(y, x + (run.row * input_row + from + run.in_piece) * bytes,
                                      run.count * bytes);
                         }
                       });
                     });
}

std::unique_ptr<Kernel> slice_kernel(const KernelContext& context) {
  const auto& operation = static_cast<const DimensionSlice&>(context.operation);
  const RowSizes x(context.inputs[0], operation.dimension), y(context.outputs[0], operation.dimension);
  return rearranging_kernel(context, x.row, {{y.row, operation.begin * y.inner}});
}

std::unique_ptr<Kernel> pad_kernel(const KernelContext& context) {
  const auto& operation = static_cast<const Pad&>(context.operation);
  const RowSizes x(context.inputs[0], operation.dimension), y(context.outputs[0], operation.dimension);
  const int64_t before = operation.before * y.inner;
  return rearranging_kernel(context, x.row, {{before, kZeros}, {before + x.row, 0}, {y.row, kZeros}});
}

std::unique_ptr<Kernel> shift_kernel(const KernelContext& context) {
  const auto& operation = static_cast<const Shift&>(context.operation);
  const LocalTensor& x = context.inputs[0];
  const RowSizes sizes(x, operation.dimension);
  const int64_t n = sizes.row / sizes.inner;
  MTF_CHECK(n == x.global.dimension(operation.dimension).size, "a shift of a split dimension is an exchange");
  if (operation.wrap) {
    const int64_t offset = ((operation.offset % n) + n) % n;
    return rearranging_kernel(context, sizes.row,
                              {{offset * sizes.inner, (n - offset) * sizes.inner}, {sizes.row, 0}});
  }
  const int64_t offset = std::clamp(operation.offset, -n, n) * sizes.inner;
  if (offset >= 0) return rearranging_kernel(context, sizes.row, {{offset, kZeros}, {sizes.row, 0}});
  return rearranging_kernel(context, sizes.row, {{sizes.row + offset, -offset}, {sizes.row, kZeros}});
}

const KernelRegistration concat_kernels("concat", kAllTypes, join_kernel<Concat>);
const KernelRegistration stack_kernels("stack", kAllTypes, join_kernel<Stack>);
const KernelRegistration split_kernels("split", kAllTypes, cut_kernel<Split>);
const KernelRegistration unstack_kernels("unstack", kAllTypes, cut_kernel<Unstack>);
const KernelRegistration slice_kernels("slice", kAllTypes, slice_kernel);
const KernelRegistration pad_kernels("pad", kAllTypes, pad_kernel);
const KernelRegistration shift_kernels("shift", kAllTypes, shift_kernel);

}  // namespace
}  // namespace mtf
