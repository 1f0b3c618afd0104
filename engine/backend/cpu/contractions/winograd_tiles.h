// Tiles of 2 x 2 entries of a convolution, or of its windows, and what they read.
//
// They are counted from the first entry of a dimension in all of it, not of a slice: where a slice begins in the middle of a
// tile, the tile is computed and half of it dropped, so that cutting space changes no bit. The entries that such a half would
// need are not read by the other half, and count as zero.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine/backend/cpu/contractions/convolution_plan.h"
#include "engine/backend/cpu/contractions/winograd_transforms.h"
#include "engine/backend/kernel.h"
#include "engine/backend/strided.h"

namespace mtf::winograd {

/// The distance of planes that have `size` elements: they share no set of L1.
int64_t plane_stride(int64_t size);

/// Tiles of 2 along a dimension, in one block: tile t has the local indices begin + 2t and begin + 2t + 1 of the 2 x 2 side,
/// and reads the four indices of A from a_begin + 2t on.
struct TileLine {
  int64_t tiles = 0;
  int64_t begin = 0, end = 0;                   ///< indices on the 2 x 2 side; `begin` is 0 or -1
  int64_t a_begin = 0, a_first = 0, a_end = 0;  ///< A has only the indices a_first .. a_end - 1

  /// The first and the end of the planes along the dimension that count: three, if there is but half a tile.
  int64_t first_plane() const { return begin < 0 && end == 1 ? 1 : 0; }
  int64_t end_plane() const { return begin == 0 && end == 1 ? kTile - 1 : kTile; }
};

/// The planes that count for some of the units of a product.
struct PlaneRange {
  int64_t first[2] = {kTile, kTile}, end[2] = {0, 0};

  void add(const TileLine lines[2]) {
    for (int w = 0; w < 2; ++w) {
      first[w] = std::min(first[w], lines[w].first_plane());
      end[w] = std::max(end[w], lines[w].end_plane());
    }
  }
  bool has(int64_t plane) const {
    const int64_t at[2] = {plane / kTile, plane % kTile};
    return at[0] >= first[0] && at[0] < end[0] && at[1] >= first[1] && at[1] < end[1];
  }
};

/// The tiles of a convolution in units: segments of rows of tiles.
class Tiles {
 public:
  /// `other`: the operand that is the 2 x 2 side. The plan must outlive the tiles.
  Tiles(const ConvolutionPlan& plan, size_t other);

  int64_t units() const { return blocks_ * images_ * rows_ * segments_; }
  int64_t most_in_unit() const { return in_segment_; }

  /// A segment of a row of tiles.
  struct Unit {
    Offsets<3> at{};  ///< where the image and the block begin
    TileLine lines[2];
    int64_t row = 0, first = 0, tiles = 0;  ///< no tiles: the block has fewer rows or columns than others
  };
  Unit unit(const KernelCall& call, int64_t index) const;

  /// Transforms the tiles of A: planes[i] + t * tile has the channels of tile t. `scratch` has rows_scratch() elements.
  void transform(const Unit& unit, const float* a, int64_t channels, float* planes, int64_t plane,
                 int64_t tile, float* scratch) const;
  int64_t rows_scratch(int64_t channels) const;
  /// Sets the zeros at the end of the scratch memory of transform(): once, before the first of several.
  void clear_zeros(float* scratch, int64_t channels) const;

  /// Visits the tiles of a unit with the four places of the 2 x 2 side, in elements of that operand or -1.
  template <class Visit>
  int64_t for_each_tile(const Unit& unit, Visit&& visit) const {
    const auto place = [&](const TileLine& line, int64_t tile, int64_t i) {
      const int64_t index = line.begin + 2 * tile + i;
      return index >= 0 && index < line.end ? index : -1;
    };
    int64_t entries = 0;
    for (int64_t t = 0; t < unit.tiles; ++t) {
      int64_t at[4];
      for (int i = 0; i < 4; ++i) {
        const int64_t row = place(unit.lines[0], unit.row, i / 2);
        const int64_t column = place(unit.lines[1], unit.first + t, i % 2);
        at[i] = row < 0 || column < 0 ? -1
                                      : unit.at[other_] + row * plan_.windows[0].strides[other_] +
                                            column * plan_.windows[1].strides[other_];
        entries += at[i] >= 0;
      }
      visit(t, at);
    }
    return entries;
  }

 private:
  int64_t most_width() const { return 2 * in_segment_ + 2; }

  const ConvolutionPlan& plan_;
  size_t other_;  ///< the operand that is the 2 x 2 side
  int64_t images_ = 1, blocks_ = 1, rows_ = 1, segments_ = 1, in_segment_ = 1;
};

}  // namespace mtf::winograd
