// Kernels of the operations that move whole runs of elements along one dimension: concat, split, stack,
// unstack, slice, pad, shift. The larger side is a sequence of rows (one for each index before the
// dimension), each made of pieces; one copy moves a piece of all rows.
#include <algorithm>
#include <vector>

#include "engine/backend/cuda/movement/copy_blocks.h"
#include "engine/base/check.h"
#include "engine/ops/concat.h"
#include "engine/ops/shift.h"
#include "engine/ops/slice.h"
#include "engine/ops/stack.h"

namespace mtf::cuda {
namespace {

/// A piece of every row, in bytes from the begin of an input and of an output.
struct Piece {
  int input = 0, output = 0;  ///< operand numbers; input may be kZeros
  int64_t from = 0, to = 0, length = 0;
  int64_t from_row = 0, to_row = 0;  ///< bytes of a row of the operands
};
constexpr int kZeros = -1;

std::unique_ptr<Kernel> piece_kernel(Device& device, int64_t rows, const std::vector<Piece>& pieces) {
  return make_device_kernel(device, [rows, pieces](const Launcher& launch, const KernelCall& call) {
    std::vector<BlockCopy> copies;
    copies.reserve(pieces.size());
    for (const Piece& piece : pieces) {
      copies.push_back(
          {.from = piece.input == kZeros ? nullptr : call.input<std::byte>(piece.input) + piece.from,
           .to = call.output<std::byte>(piece.output) + piece.to,
           .rows = rows,
           .length = piece.length,
           .from_row = piece.from_row,
           .to_row = piece.to_row});
    }
    copy_blocks(launch, copies);
  });
}

/// A tensor as rows, one for each index before `dimension`, in bytes.
struct RowBytes {
  int64_t count, row, inner;  ///< inner: bytes of one entry of the dimension

  RowBytes(const LocalTensor& tensor, std::string_view dimension) {
    const int axis = *tensor.local.find(dimension);
    inner = entry_bytes(tensor, axis);
    row = inner * tensor.local[axis].size;
    count = bytes_of(tensor) / row;
  }
};

/// concat and stack: the inputs are the pieces of the output's rows.
template <class Join>
std::unique_ptr<Kernel> join_kernel(const KernelContext& context, Device& device) {
  const RowBytes whole(context.outputs[0], static_cast<const Join&>(context.operation).dimension);
  std::vector<Piece> pieces;
  int64_t to = 0;
  for (const LocalTensor& part : context.inputs) {
    const int64_t length = bytes_of(part) / whole.count;
    pieces.push_back({.input = static_cast<int>(pieces.size()),
                      .to = to,
                      .length = length,
                      .from_row = length,
                      .to_row = whole.row});
    to += length;
  }
  return piece_kernel(device, whole.count, pieces);
}

/// split and unstack: the outputs are the pieces of the input's rows.
template <class Cut>
std::unique_ptr<Kernel> cut_kernel(const KernelContext& context, Device& device) {
  const RowBytes whole(context.inputs[0], static_cast<const Cut&>(context.operation).dimension);
  std::vector<Piece> pieces;
  int64_t from = 0;
  for (const LocalTensor& part : context.outputs) {
    const int64_t length = bytes_of(part) / whole.count;
    pieces.push_back({.output = static_cast<int>(pieces.size()),
                      .from = from,
                      .length = length,
                      .from_row = whole.row,
                      .to_row = length});
    from += length;
  }
  return piece_kernel(device, whole.count, pieces);
}

/// Builds the output's rows from a piece of the input's row, with zeros or other pieces around it.
class Rearrangement {
 public:
  Rearrangement(const KernelContext& context, std::string_view dimension)
      : x(context.inputs[0], dimension), y(context.outputs[0], dimension) {}

  /// Appends `length` bytes of the input's row, beginning at `from`, to each row.
  Rearrangement& copy(int64_t from, int64_t length) {
    return add({.from = from, .length = length, .from_row = x.row, .to_row = y.row});
  }
  Rearrangement& zeros(int64_t length) { return add({.input = kZeros, .length = length, .to_row = y.row}); }

  std::unique_ptr<Kernel> kernel(Device& device) const {
    MTF_CHECK(filled_ == y.row, "{} of {} bytes of a row", filled_, y.row);
    return piece_kernel(device, y.count, pieces_);
  }

  const RowBytes x, y;

 private:
  Rearrangement& add(Piece piece) {
    piece.to = filled_;
    filled_ += piece.length;
    pieces_.push_back(piece);
    return *this;
  }

  std::vector<Piece> pieces_;
  int64_t filled_ = 0;
};

std::unique_ptr<Kernel> slice_kernel(const KernelContext& context, Device& device) {
  const auto& operation = static_cast<const DimensionSlice&>(context.operation);
  Rearrangement rows(context, operation.dimension);
  return rows.copy(operation.begin * rows.y.inner, rows.y.row).kernel(device);
}

std::unique_ptr<Kernel> pad_kernel(const KernelContext& context, Device& device) {
  const auto& operation = static_cast<const Pad&>(context.operation);
  Rearrangement rows(context, operation.dimension);
  const int64_t before = operation.before * rows.y.inner;
  return rows.zeros(before).copy(0, rows.x.row).zeros(rows.y.row - rows.x.row - before).kernel(device);
}

std::unique_ptr<Kernel> shift_kernel(const KernelContext& context, Device& device) {
  const auto& operation = static_cast<const Shift&>(context.operation);
  Rearrangement rows(context, operation.dimension);
  const int64_t row = rows.x.row, inner = rows.x.inner, n = row / inner;
  MTF_CHECK(n == context.inputs[0].global.dimension(operation.dimension).size,
            "a shift of a split dimension is an exchange");
  if (operation.wrap) {
    const int64_t offset = ((operation.offset % n) + n) % n * inner;
    return rows.copy(row - offset, offset).copy(0, row - offset).kernel(device);
  }
  const int64_t offset = std::clamp(operation.offset, -n, n) * inner;
  if (offset >= 0) return rows.zeros(offset).copy(0, row - offset).kernel(device);
  return rows.copy(-offset, row + offset).zeros(-offset).kernel(device);
}

const DeviceKernelRegistration concat_kernels("concat", kAllTypes, join_kernel<Concat>);
const DeviceKernelRegistration stack_kernels("stack", kAllTypes, join_kernel<Stack>);
const DeviceKernelRegistration split_kernels("split", kAllTypes, cut_kernel<Split>);
const DeviceKernelRegistration unstack_kernels("unstack", kAllTypes, cut_kernel<Unstack>);
const DeviceKernelRegistration slice_kernels("slice", kAllTypes, slice_kernel);
const DeviceKernelRegistration pad_kernels("pad", kAllTypes, pad_kernel);
const DeviceKernelRegistration shift_kernels("shift", kAllTypes, shift_kernel);

}  // namespace
}  // namespace mtf::cuda
