#include "engine/ops/window_blocks.h"

#include <algorithm>

#include "engine/base/integer_division.h"
#include "engine/ops/halo.h"
#include "engine/ops/reshape.h"

namespace mtf {
namespace {

struct Interval {
  int64_t first, last;
};

/// The entries that the windows read.
Interval entries_of(const Window& window, Interval windows) {
  return {windows.first * window.stride - window.before,
          windows.last * window.stride - window.before + (window.size - 1) * window.dilation};
}

/// The windows that read some of the entries.
Interval windows_of(const Window& window, Interval entries) {
  const int64_t reach = (window.size - 1) * window.dilation;
  return {-floor_divide(reach - entries.first - window.before, window.stride),
          floor_divide(entries.last + window.before, window.stride)};
}

/// Returns a name that no rule splits and no operand has.
std::string free_name(std::string name, const std::vector<Shape>& operands, const LayoutMap& rules) {
  const auto taken = [&](const Shape& shape) { return shape.contains(name); };
  while (rules.splits(name) || std::ranges::any_of(operands, taken)) name += '_';
  return name;
}

}  // namespace

bool splits_windows(const std::vector<Window>& windows, const LayoutMap& rules) {
  return std::ranges::any_of(
      windows, [&](const Window& window) { return window.blocks.empty() && rules.splits(window.dimension); });
}

WindowBlocks::WindowBlocks(std::vector<Window> windows, Grid extended, const std::vector<Shape>& operands,
                           const LayoutMap& rules)
    : windows_(std::move(windows)), halos_(windows_.size()) {
  for (size_t i = 0; i < windows_.size(); ++i) {
    Window& window = windows_[i];
    if (!window.blocks.empty() || !rules.splits(window.dimension)) continue;
    const int64_t blocks = rules.parts(window.dimension);
    window.entries.per_block = window.entries.size / blocks;
    window.windows.per_block = window.windows.size / blocks;
    // The operand with margins, and the one whose blocks need them.
    WindowGrid& read = extended == kEntries ? window.entries : window.windows;
    const WindowGrid& made = extended == kEntries ? window.windows : window.entries;
    Halo& halo = halos_[i];
    for (int64_t block = 0; block < blocks; ++block) {
      const Interval own{block * made.per_block, (block + 1) * made.per_block - 1};
      const Interval needed = extended == kEntries ? entries_of(window, own) : windows_of(window, own);
      const int64_t first = std::max<int64_t>(needed.first, 0), last = std::min(needed.last, read.size - 1);
      if (first > last) continue;
      halo.left = std::max(halo.left, block * read.per_block - first);
      halo.right = std::max(halo.right, last - ((block + 1) * read.per_block - 1));
    }
    read.margin = halo.left;
    window.blocks = window.dimension;
    window.dimension = free_name(window.dimension + "_block", operands, rules);
  }
}

Shape WindowBlocks::cut(const Shape& shape) const {
  std::vector<Dimension> dimensions;
  for (const Dimension& d : shape) {
    const auto window = std::ranges::find_if(
        windows_, [&](const Window& w) { return w.blocks == d.name && !shape.contains(w.dimension); });
    if (window == windows_.end()) {
      dimensions.push_back(d);
      continue;
    }
    const int64_t per_block =
        d.size == window->entries.size ? window->entries.per_block : window->windows.per_block;
    dimensions.push_back({d.name, d.size / per_block});
    dimensions.push_back({window->dimension, per_block});
  }
  return Shape(std::move(dimensions));
}

Tensor WindowBlocks::cut(const Tensor& x) const { return reshape(x, cut(x.shape())); }

Tensor WindowBlocks::extended(const Tensor& x) const {
  Tensor result = cut(x);
  for (size_t i = 0; i < windows_.size(); ++i) {
    if (halos_[i].left + halos_[i].right == 0) continue;
    result = halo_exchange(result, windows_[i].blocks, windows_[i].dimension, halos_[i].left, halos_[i].right,
                           false);
  }
  return result;
}

Tensor WindowBlocks::joined(const Tensor& x) const {
  std::vector<Dimension> dimensions;
  for (const Dimension& d : x.shape()) {
    const auto inner = std::ranges::find(windows_, d.name, &Window::dimension);
    if (inner != windows_.end() && !inner->blocks.empty()) {
      dimensions.back().size *= d.size;
    } else {
      dimensions.push_back(d);
    }
  }
  return reshape(x, Shape(std::move(dimensions)));
}

}  // namespace mtf
