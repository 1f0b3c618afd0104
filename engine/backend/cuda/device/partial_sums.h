// Sums over large tensors in two launches: the blocks of the first write partial sums, one for each tile of
// the tensor, and the second adds the tiles of each entry in order. Tiles depend only on the shapes.
//
//   const TileCut cut(1, size);                           // one entry: a sum over all elements
//   launch({cut.blocks(1), kThreads, ...}, Squares{x, cut, partials});  // cut.tiles() doubles of scratch
//   const AddTiles<1> add{{{partials, cut.tiles(), 1, result}}, blocks};
//   launch(over(add.size(), 1), add);
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/backend/cuda/device/element_walk.h"
#include "engine/base/integer_division.h"

namespace mtf::cuda {

/// The largest number of tiles: enough to use the memory bandwidth, few enough for the second launch.
inline constexpr int64_t kMostTiles = 512;
inline constexpr int64_t kElementsPerTile = 1 << 14;

/// Cuts the elements of each of `entries` sums, of `elements` elements each, into tiles. Tile sizes are
/// multiples of every pack.
class TileCut {
 public:
  TileCut() = default;
  TileCut(int64_t entries, int64_t elements) : elements_(elements) {
    const int64_t most = std::max<int64_t>(1, kMostTiles / entries);
    const int64_t wanted = std::clamp<int64_t>(ceil_divide(elements, kElementsPerTile), 1, most);
    per_tile_ = ceil_divide(ceil_divide(elements, wanted), kUnit) * kUnit;
    tiles_ = std::max<int64_t>(1, ceil_divide(elements, per_tile_));
    of_entry_ = Divisor(tiles_, entries * tiles_);
  }

  int64_t tiles() const { return tiles_; }
  int64_t blocks(int64_t entries) const { return entries * tiles_; }
  struct Tile {
    int64_t entry, tile;
    int64_t begin, end;  ///< range of elements
  };
  MTF_HOST_DEVICE Tile of_block(int64_t index) const {
    const auto [entry, tile] = of_entry_(index);
    const int64_t begin = tile * per_tile_, end = begin + per_tile_;
    return {entry, tile, begin, end < elements_ ? end : elements_};
  }

 private:
  static constexpr int64_t kUnit = kThreads * kPackBytes;

  int64_t elements_ = 0, per_tile_ = 1, tiles_ = 1;
  Divisor of_entry_;
};

/// Partial sums [tiles, entries] of a result [blocks, entries]: block b adds the tiles b, b + blocks, ...
struct TiledSum {
  const double* partials;
  int64_t tiles, entries;
  double* result;
};

/// The second launch, which computes N results.
template <int N>
struct AddTiles {
  static constexpr bool kBatched = true;
  TiledSum sums[N];
  int64_t blocks;  ///< leading dimension of the results

  int64_t size() const {
    int64_t size = 0;
    for (const TiledSum& sum : sums) size += sum.entries * blocks;
    return size;
  }

  MTF_DEVICE void operator()(const Block& block) const {
    for (int n = 0; n < N; ++n) {
      const TiledSum& sum = sums[n];
      for (int64_t i = block.first(); i < sum.entries * blocks; i += block.stride()) {
        const int64_t begin = i / sum.entries, entry = i % sum.entries;
        double total = 0;
        for (int64_t tile = begin; tile < sum.tiles; tile += blocks)
          total += sum.partials[tile * sum.entries + entry];
        sum.result[i] = total;
      }
    }
  }
};

}  // namespace mtf::cuda
