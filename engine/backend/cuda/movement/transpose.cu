// The kernel of `transpose`, which moves elements of any type. If the fast axes of input and output differ,
// it moves tiles through shared memory, so that both sides are read and written in whole sectors; otherwise
// runs of words.
#include "engine/backend/broadcast_axes.h"
#include "engine/backend/cuda/device/words.h"
#include "engine/backend/cuda/movement/transpose.h"
#include "engine/ops/transpose.h"

namespace mtf::cuda {
namespace {

/// Copies words, for inputs and outputs with the same fast axis.
struct CopyRuns {
  const std::byte* x;
  std::byte* y;
  Strided<2> walk;  ///< over words
  int64_t word;     ///< bytes of a word

  MTF_DEVICE void operator()(const Block& block) const {
    with_word(word, [&]<class Word>(Word) {
      const auto load_entry = [&](int64_t i) {
        const Offsets<2> at = walk.at(i);
        return Moved<Word>{reinterpret_cast<const Word*>(x)[at[0]], reinterpret_cast<Word*>(y) + at[1]};
      };
      move_entries(block, walk.size(), load_entry,
                   [](int64_t, const Moved<Word>& moved) { *moved.to = moved.value; });
    });
  }

 private:
  template <class Word>
  struct Moved {
    Word value;
    Word* to;
  };
};

Transposition copy_runs(const StridedAxes<2>& axes, int64_t element, int64_t alignment) {
  const WordWalk<2> words(axes, 3, element, {std::max<int64_t>(1, alignment / element)});
  const Strided<2> walk(words.axes);
  return [=, word = words.word](const Launcher& launch, const std::byte* x, std::byte* y) {
    launch(over(walk.size()), CopyRuns{x, y, walk, word});
  };
}

/// The shape of a tile: 2^row_bits entries of the fast axis of y by 2^column_bits of the fast axis of x.
struct TileShape {
  int row_bits, column_bits;
};

/// Tiles have 1024 entries, or 4096 if these are small, and are square unless an axis is too short for that.
template <class T>
inline constexpr int kSideBits = sizeof(T) < 4 ? 6 : 5;

TileShape tile_shape(int side_bits, int64_t rows, int64_t columns) {
  const auto bits_of = [](int64_t size) {
    return static_cast<int>(std::bit_width(static_cast<uint64_t>(size) - 1));
  };
  TileShape tile{std::min(side_bits, bits_of(rows)), std::min(side_bits, bits_of(columns))};
  if (tile.row_bits < side_bits) tile.column_bits = std::min(2 * side_bits - tile.row_bits, bits_of(columns));
  if (tile.column_bits < side_bits) tile.row_bits = std::min(2 * side_bits - tile.column_bits, bits_of(rows));
  return tile;
}

/// Each block takes one tile at a time, reads it along x and writes it along y.
template <class T>
struct TransposeTiles {
  static constexpr int kEntries = 1 << 2 * kSideBits<T>, kPerThread = kEntries / kThreads;

  const T* x;
  T* y;
  Strided<2> outer;  ///< all axes except the two fast ones
  Divisor row_tiles, column_tiles;
  int64_t tiles;
  TileShape tile;
  int pitch;                   ///< row stride of a tile in shared memory; puts columns into different banks
  int64_t rows, columns;       ///< sizes of the fast axes of y and of x
  int64_t stride_x, stride_y;  ///< row stride of x and column stride of y

  MTF_DEVICE void operator()(const Block& block) const {
    T* shared = block.shared<T>();
    for (int64_t i = block.index(); i < tiles; i += block.blocks()) {
      const Division row = row_tiles(i), column = column_tiles(row.quotient);
      const Offsets<2> at = outer.at(column.quotient);
      const int64_t first_row = row.remainder << tile.row_bits;
      const int64_t first_column = column.remainder << tile.column_bits;
      const int height = static_cast<int>(std::min<int64_t>(1 << tile.row_bits, rows - first_row));
      const int width = static_cast<int>(std::min<int64_t>(1 << tile.column_bits, columns - first_column));
      const T* from = x + at[0] + first_row * stride_x + first_column;
      T* to = y + at[1] + first_column * stride_y + first_row;
      T values[kPerThread] = {};
      MTF_UNROLL(kPerThread)
      for (int k = 0; k < kPerThread; ++k) {
        const int e = block.thread() + k * kThreads;
        const int r = e >> tile.column_bits, c = e & ((1 << tile.column_bits) - 1);
        if (r < height && c < width) values[k] = from[r * stride_x + c];
      }
      MTF_UNROLL(kPerThread)
      for (int k = 0; k < kPerThread; ++k) {
        const int e = block.thread() + k * kThreads;
        const int r = e >> tile.column_bits, c = e & ((1 << tile.column_bits) - 1);
        if (r < height && c < width) shared[r * pitch + c] = values[k];
      }
      block.sync();
      MTF_UNROLL(kPerThread)
      for (int k = 0; k < kPerThread; ++k) {
        const int e = block.thread() + k * kThreads;
        const int c = e >> tile.row_bits, r = e & ((1 << tile.row_bits) - 1);
        if (r < height && c < width) to[c * stride_y + r] = shared[r * pitch + c];
      }
      block.sync();
    }
  }
};

template <class T>
Transposition transpose_tiles(StridedAxes<2> axes) {
  const StridedAxis<2> along_y = axes.back();
  axes.pop_back();
  const auto fast =
      std::find_if(axes.begin(), axes.end(), [](const auto& axis) { return axis.strides[0] == 1; });
  const StridedAxis<2> along_x = *fast;
  axes.erase(fast);

  const TileShape tile = tile_shape(kSideBits<T>, along_y.size, along_x.size);
  const int64_t tile_rows = int64_t{1} << tile.row_bits, tile_columns = int64_t{1} << tile.column_bits;
  const int64_t row_tiles = (along_y.size + tile_rows - 1) / tile_rows;
  const int64_t column_tiles = (along_x.size + tile_columns - 1) / tile_columns;
  const int64_t tiles = size_of(axes) * row_tiles * column_tiles;
  const int64_t pitch = tile_columns + std::max<int64_t>(1, 4 / sizeof(T));
  const LaunchShape shape{std::min(kMostBlocks, tiles), kThreads,
                          tile_rows * pitch * static_cast<int64_t>(sizeof(T))};
  const TransposeTiles<T> prepared{nullptr,
                                   nullptr,
                                   Strided<2>(axes),
                                   Divisor(row_tiles, tiles),
                                   Divisor(column_tiles, tiles),
                                   tiles,
                                   tile,
                                   static_cast<int>(pitch),
                                   along_y.size,
                                   along_x.size,
                                   along_y.strides[0],
                                   along_x.strides[1]};
  return [=](const Launcher& launch, const std::byte* x, std::byte* y) {
    TransposeTiles<T> body = prepared;
    body.x = reinterpret_cast<const T*>(x);
    body.y = reinterpret_cast<T*>(y);
    launch(shape, body);
  };
}

std::unique_ptr<Kernel> transpose_kernel(const KernelContext& context, Device& device) {
  const Transposition transpose =
      make_transposition(moved_axes(context), static_cast<int64_t>(size_of(context.outputs[0].dtype)));
  return make_device_kernel(device, [transpose](const Launcher& launch, const KernelCall& call) {
    transpose(launch, call.input<std::byte>(0), call.output<std::byte>(0));
  });
}

const DeviceKernelRegistration transpose_any("transpose", kAllTypes, transpose_kernel);

}  // namespace

Transposition make_transposition(const StridedAxes<2>& given, int64_t element, int64_t alignment) {
  const StridedAxes<2> axes = joined(given);
  const bool reads_runs = std::ranges::any_of(axes, [](const auto& axis) { return axis.strides[0] == 1; });
  if (!reads_runs || axes.back().strides[1] != 1 || axes.back().strides[0] == 1)
    return copy_runs(axes, element, alignment);
  return with_element(static_cast<size_t>(element), [&]<class T>(T) { return transpose_tiles<T>(axes); });
}

}  // namespace mtf::cuda
