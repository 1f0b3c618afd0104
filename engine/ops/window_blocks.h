// Windows over a dimension that a layout splits: the dimension is cut into one block for each slice, and the blocks of
// the operand that windows are gathered from are extended by what they need of their neighbours.
//
//   const WindowBlocks blocks(windows, WindowBlocks::kEntries, {x.shape(), y.shape()}, rules);
//   y = blocks.joined(convolution of blocks.extended(x) with blocks.windows());
#pragma once

#include <cstdint>
#include <vector>

#include "engine/graph/graph.h"
#include "engine/ops/window.h"

namespace mtf {

/// Whether a layout splits the dimension of one of the windows.
bool splits_windows(const std::vector<Window>& windows, const LayoutMap& rules);

class WindowBlocks {
 public:
  enum Grid { kEntries, kWindows };

  /// `extended`: which operand has the margins. `operands`: the shapes of all of them.
  WindowBlocks(std::vector<Window> windows, Grid extended, const std::vector<Shape>& operands,
               const LayoutMap& rules);

  /// The windows in block form.
  const std::vector<Window>& windows() const { return windows_; }

  /// x [.., rows, ..] as [.., rows = number of blocks, entries of a block, ..]. cut() for one operand, extended() for
  /// the one with margins; joined() is the inverse of cut().
  Tensor cut(const Tensor& x) const;
  Tensor extended(const Tensor& x) const;
  Tensor joined(const Tensor& x) const;
  /// The shape that cut() gives.
  Shape cut(const Shape& shape) const;

 private:
  struct Halo {
    int64_t left = 0, right = 0;
  };
  std::vector<Window> windows_;
  std::vector<Halo> halos_;  ///< [windows]
};

}  // namespace mtf
