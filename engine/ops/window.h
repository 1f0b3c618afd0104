// Windows that move over a dimension: the geometry of convolutions and pooling.
//
// Window w reads the entries w * stride - before + k * dilation, for k = 0 .. size - 1. What lies outside the entries is
// padding. A tensor of entries and the tensor of windows made from it have a dimension of the same name and of different
// sizes.
//
// Where a layout splits that dimension, both tensors are cut into blocks, one for each slice, and one of the two has
// margins of its neighbours' entries (window_blocks.h). Blocks need not begin where a window does.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/core/shape.h"

namespace mtf {

/// The entries or the windows of a dimension as a tensor has them.
struct WindowGrid {
  int64_t size = 0;       ///< how many there are in all
  int64_t per_block = 0;  ///< blocks begin this far apart
  int64_t margin = 0;     ///< a block begins with this many from before it
};

/// The most dimensions along which the windows of one operation move.
inline constexpr int kMostWindows = 4;

struct Window {
  std::string dimension;  ///< which entries and windows have; in block form the one within a block
  std::string filter;     ///< the dimension of a convolution's filter; empty for pooling
  int64_t size = 1, stride = 1, dilation = 1;
  int64_t before = 0;  ///< the first window begins this many entries before the first; negative: after it
  WindowGrid entries, windows;
  std::string blocks = {};  ///< the dimension of the blocks; empty: there are none

  /// The same relation between local indices of one block: window w reads entry w * stride + k * dilation + origin, and
  /// there are only the entries and windows of the two ranges.
  struct Local {
    int64_t origin = 0;
    int64_t first_entry = 0, end_entry = 0, first_window = 0, end_window = 0;
  };
  /// `entries_here`, `windows_here`: what the tensors have in a block, with margins.
  Local local(int64_t block, int64_t entries_here, int64_t windows_here) const;

  /// Such as "rows 3/2*1 from -1": size, stride, dilation and the first entry.
  std::string to_string() const;
};

/// The numbers of entries and of windows, in all blocks.
inline int64_t entry_count(const Window& window) { return window.entries.size; }
inline int64_t window_count(const Window& window) { return window.windows.size; }

/// The texts of the windows, separated by commas.
std::string to_string(const std::vector<Window>& windows);

/// What lies around the entries.
struct Padding {
  enum class Kind { kSame, kValid, kExplicit };
  Kind kind = Kind::kSame;
  int64_t before = 0, after = 0;  ///< for kExplicit; negative: entries that no window reads

  static Padding same() { return {}; }
  static Padding valid() { return {.kind = Kind::kValid}; }
  static Padding of(int64_t before, int64_t after) { return {Kind::kExplicit, before, after}; }
};

struct WindowOptions {
  std::string filter = {};
  int64_t size = 1, stride = 1, dilation = 1;
  Padding padding = {};
};

/// The windows over all entries of `dimension`. With e = (size - 1) * dilation + 1 entries from the first to the last of
/// a window there are
///   same:      ceil(n / stride) windows; of the padding max((windows - 1) * stride + e - n, 0) half, rounded down, is
///              before
///   valid:     floor((n - e) / stride) + 1
///   explicit:  floor((before + n + after - e) / stride) + 1
/// as in TensorFlow. Throws Error if there is no window, or a number is not positive.
Window window_over(const Dimension& dimension, const WindowOptions& options);

/// The windows of which `dimension` is the number, over the entries of a transposed convolution: same: n * stride
/// entries; valid: (n - 1) * stride + e; explicit: that less before and after. `extra` entries are added at the end.
/// Throws Error as above.
Window window_onto(const Dimension& dimension, const WindowOptions& options, int64_t extra = 0);

inline Window::Local Window::local(int64_t block, int64_t entries_here, int64_t windows_here) const {
  const int64_t entry = block * entries.per_block - entries.margin;
  const int64_t window = block * windows.per_block - windows.margin;
  const auto first = [](int64_t begin) { return begin < 0 ? -begin : int64_t{0}; };
  const auto end = [](int64_t begin, int64_t here, int64_t all) {
    return begin + here > all ? all - begin : here;
  };
  return {window * stride - before - entry, first(entry), end(entry, entries_here, entries.size),
          first(window), end(window, windows_here, windows.size)};
}

}  // namespace mtf
