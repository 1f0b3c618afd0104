// Iteration over the elements of a result and, for each of them, over the elements of a source that lie in its windows.
// The result has the windows and the source the entries, or, if a kernel spreads, the other way round.
//
//   const WindowPlan<2> plan = ...;              // on the host; others: strides in result and source
//   plan.for_each_block(call, [&](const auto& walk, int64_t result, int64_t source) {     // a WindowWalk
//     launch(over(walk.size(), 1), Body{x + source, y + result, walk});
//   });
//   for (int64_t i = block.first(); i < walk.size(); i += block.stride()) {      // in a kernel
//     const auto element = walk.at(i);
//     float sum = 0;
//     walk.for_each_tap(element, [&](int64_t from, int64_t) { sum += x[from]; });
//     y[element.at[0]] = sum;
//   }
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "engine/backend/cuda/device/element_walk.h"
#include "engine/backend/placed_window.h"
#include "engine/base/integer_division.h"

namespace mtf::cuda {

/// The places of a window that an element of the result meets: places first, first + every, ..., which are `step` apart in
/// the source, the first at `offset`.
struct Taps {
  int64_t offset = 0, step = 0;
  int first = 0, every = 1, count = 0;
};

/// A dimension with windows, in one block.
struct WalkedWindow {
  Divisor size{1, 1};  ///< entries or windows of the result
  int64_t result_stride = 0, source_stride = 0;
  int64_t tap_stride = 0;  ///< between places of the window: in a filter, or in the number of a place
  int taps = 1, stride = 1, dilation = 1, origin = 0;
  int first = 0, end = 1;  ///< what the source has
  /// For a kernel that spreads: every so many places of a window meet the same entry, by windows that are `shift` apart.
  int every = 1, shift = 1;
  bool spreads = false;

  MTF_DEVICE Taps taps_of(int at) const {
    int begin = at * stride + origin, step = dilation, tap = 0, count = taps;
    if (spreads) {
      const int places = std::min(every, taps), offset = at - origin;
      while (tap < places && (offset - tap * dilation) % stride != 0) ++tap;
      if (tap == places) return {};
      begin = (offset - tap * dilation) / stride;
      step = -shift;
      count = (taps - tap + every - 1) / every;
    }
    // The range of i for which first <= begin + i * step < end.
    const int distance = spreads ? shift : dilation;
    const int before = spreads ? begin - (end - 1) : first - begin;
    const int reach = spreads ? begin - first : end - 1 - begin;
    if (reach < 0) return {};
    const int skipped = before <= 0 ? 0 : distance == 1 ? before : (before + distance - 1) / distance;
    count = std::min(count, (distance == 1 ? reach : reach / distance) + 1) - skipped;
    return {(begin + skipped * step) * source_stride, step * source_stride, tap + skipped * every, every,
            std::max(count, 0)};
  }
};

/// The walk within one block, for up to D dimensions with windows. Operands 0 and 1 are the result and the source; others,
/// such as a filter, have no windows.
template <int N, int D>
class WindowWalk {
 public:
  struct Element {
    Offsets<N> at;  ///< in the operands, windows left out of that of the source
    int index[D];
  };

  WindowWalk() = default;
  WindowWalk(const Strided<N>& outer, const Strided<N>& inner, const std::vector<WalkedWindow>& windows)
      : outer_(outer), inner_(inner), size_(outer.size() * inner.size()) {
    for (const WalkedWindow& window : windows) size_ *= window.size.value();
    inner_size_ = Divisor(inner.size(), size_);
    std::ranges::copy(windows, windows_);
    for (WalkedWindow& window : windows_) window.size = Divisor(window.size.value(), size_);
  }

  MTF_HOST_DEVICE int64_t size() const { return size_; }
  MTF_DEVICE Element at(int64_t i) const {
    const Division inner = inner_size_(i);
    Element element{inner_.at(inner.remainder), {}};
    int64_t rest = inner.quotient;
    MTF_UNROLL(D)
    for (int w = D - 1; w >= 0; --w) {
      const Division division = windows_[w].size(rest);
      element.index[w] = static_cast<int>(division.remainder);
      element.at[0] += division.remainder * windows_[w].result_stride;
      rest = division.quotient;
    }
    const Offsets<N> outer = outer_.at(rest);
    for (int n = 0; n < N; ++n) element.at[n] += outer[n];
    return element;
  }
  /// Calls visit(offset in the source, sum of places * tap_stride).
  template <class Visit>
  MTF_DEVICE void for_each_tap(const Element& element, const Visit& visit) const {
    Taps taps[D];
    MTF_UNROLL(D)
    for (int w = 0; w < D; ++w) taps[w] = windows_[w].taps_of(element.index[w]);
    visit_from<0>(taps, element.at[1], 0, visit);
  }

 private:
  /// Visits the taps of window dimensions W and later.
  template <int W, class Visit>
  MTF_DEVICE void visit_from(const Taps (&taps)[D], int64_t from, int64_t place, const Visit& visit) const {
    if constexpr (W == D) {
      visit(from, place);
    } else {
      from += taps[W].offset;
      place += taps[W].first * windows_[W].tap_stride;
      for (int i = 0; i < taps[W].count; ++i) {
        visit_from<W + 1>(taps, from, place, visit);
        from += taps[W].step;
        place += taps[W].every * windows_[W].tap_stride;
      }
    }
  }

  Strided<N> outer_, inner_;  ///< the other dimensions
  WalkedWindow windows_[D];
  Divisor inner_size_{1, 1};
  int64_t size_ = 1;
};

/// Makes walks for the blocks of a call.
template <int N>
class WindowPlan {
 public:
  struct Dimension {
    PlacedWindow placed;
    int64_t result_stride = 0, source_stride = 0, tap_stride = 0;
    int64_t result_block = 0, source_block = 0;  ///< strides of the blocks
  };

  /// `others`: strides in result, source and other operands.
  WindowPlan(std::vector<Dimension> windows, const StridedAxes<N>& others, bool spreads)
      : windows_(std::move(windows)), spreads_(spreads) {
    const auto by_result = [](const auto& x, const auto& y) { return x.strides[0] > y.strides[0]; };
    StridedAxes<N> axes = others;
    std::ranges::stable_sort(axes, by_result);
    std::ranges::stable_sort(windows_, std::ranges::greater{}, &Dimension::result_stride);
    const int64_t least = windows_.empty() ? 0 : windows_.back().result_stride;
    for (const auto& axis : axes)
      (windows_.empty() || axis.strides[0] < least ? inner_ : outer_).push_back(axis);
    inner_ = joined(inner_);
    outer_ = joined(outer_);
  }

  /// Makes each step of the walk one over `count` elements, if these are contiguous in all operands and begin at multiples
  /// of `count`; otherwise returns false.
  bool walk_in_packs(int64_t count) {
    if (inner_.empty() || inner_.back().size % count != 0) return false;
    const auto is_multiple = [count](int64_t stride) { return stride % count == 0; };
    for (const int64_t stride : inner_.back().strides) {
      if (stride != 1) return false;
    }
    for (const StridedAxes<N>* axes : {&inner_, &outer_}) {
      for (const auto& axis : *axes) {
        if (&axis != &inner_.back() && !std::ranges::all_of(axis.strides, is_multiple)) return false;
      }
    }
    for (const Dimension& d : windows_) {
      if (!is_multiple(d.result_stride) || !is_multiple(d.source_stride) || !is_multiple(d.result_block) ||
          !is_multiple(d.source_block) || (N > 2 && !is_multiple(d.tap_stride)))
        return false;
    }
    inner_.back().size /= count;
    for (int64_t& stride : inner_.back().strides) stride *= count;
    return true;
  }

  /// Calls visit(walk, offset of the block in the result, in the source). There are two types of walks: most kernels have
  /// windows along one or two dimensions.
  template <class Visit>
  void for_each_block(const KernelCall& call, const Visit& visit) const {
    int64_t blocks = 1;
    for (const Dimension& d : windows_) blocks *= d.placed.blocks;
    for (int64_t number = 0; number < blocks; ++number) {
      int64_t rest = number, result = 0, source = 0;
      std::vector<WalkedWindow> walked;
      for (const Dimension& d : windows_) {
        const int64_t block = rest % d.placed.blocks;
        rest /= d.placed.blocks;
        result += block * d.result_block;
        source += block * d.source_block;
        walked.push_back(in_block(d, d.placed.local(call, block)));
      }
      const Strided<N> outer(outer_), inner(inner_);
      if (walked.size() <= kFewWindows) {
        visit(WindowWalk<N, kFewWindows>(outer, inner, walked), result, source);
      } else {
        visit(WindowWalk<N, kMostWindows>(outer, inner, walked), result, source);
      }
    }
  }

 private:
  static constexpr int kFewWindows = 2;

  WalkedWindow in_block(const Dimension& d, const Window::Local& local) const {
    const Window& window = d.placed.window;
    const int64_t size = spreads_ ? d.placed.entries : d.placed.windows;
    const int64_t divisor = std::gcd(window.stride, window.dilation);
    const auto narrow = [](int64_t value) {
      MTF_CHECK(value > -(int64_t{1} << 31) && value < int64_t{1} << 31, "a window with an index of {}",
                value);
      return static_cast<int>(value);
    };
    // The largest number that a kernel computes.
    narrow((std::max(d.placed.entries, d.placed.windows) + window.size) * (window.stride + window.dilation));
    WalkedWindow walked;
    walked.size = Divisor(size, size);
    walked.result_stride = d.result_stride;
    walked.source_stride = d.source_stride;
    walked.tap_stride = d.tap_stride;
    walked.taps = narrow(window.size);
    walked.stride = narrow(window.stride);
    walked.dilation = narrow(window.dilation);
    walked.origin = narrow(local.origin);
    walked.first = narrow(spreads_ ? local.first_window : local.first_entry);
    walked.end = narrow(spreads_ ? local.end_window : local.end_entry);
    walked.spreads = spreads_;
    if (spreads_) {
      walked.every = narrow(window.stride / divisor);
      walked.shift = narrow(window.dilation / divisor);
    }
    return walked;
  }

  std::vector<Dimension> windows_;
  StridedAxes<N> outer_, inner_;
  bool spreads_;
};

}  // namespace mtf::cuda
