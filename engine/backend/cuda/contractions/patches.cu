#include <algorithm>

#include "engine/backend/cuda/contractions/patches.h"
#include "engine/backend/cuda/device/words.h"
#include "engine/base/integer_division.h"

namespace mtf::cuda {
namespace {

constexpr int64_t kRowBytes = 16;

/// Copies words; their indices count over [group, grid, depth] or [group, depth, grid].
struct CopyPatches {
  struct Axis {
    Divisor positions{1, 1}, taps{1, 1};
    int64_t stride = 0;
    int begin = 0, position_step = 0, tap_step = 0;
    int first = 0, end = 1;
  };

  const std::byte* source;
  std::byte* patches;
  int64_t word;  ///< bytes
  // All strides are in words.
  Strided<1> groups, images, channels;
  Axis axes[kMostWindows];  ///< the last dimension first
  int windows;
  Divisor by_inner, by_outer, by_channels;  ///< sizes of both dimensions of the matrix, and of the channels
  int64_t size, row, matrix;
  bool grid_last;

  MTF_DEVICE void operator()(const Block& block) const {
    with_word(word, [&]<class Word>(Word) {
      Word* to = reinterpret_cast<Word*>(patches);
      move_entries(
          block, size, [&](int64_t i) { return load_entry<Word>(i); },
          [&](int64_t, const Moved<Word>& moved) { to[moved.to] = moved.value; });
    });
  }

 private:
  template <class Word>
  struct Moved {
    Word value;
    int64_t to;
  };

  template <class Word>
  MTF_DEVICE Moved<Word> load_entry(int64_t i) const {
    const Division inner = by_inner(i), outer = by_outer(inner.quotient);
    Moved<Word> moved{{}, outer.quotient * matrix + outer.remainder * row + inner.remainder};
    int64_t position = grid_last ? inner.remainder : outer.remainder;
    const Division tap_channel = by_channels(grid_last ? outer.remainder : inner.remainder);
    int64_t tap = tap_channel.quotient;
    int64_t from = groups.at(outer.quotient)[0] + channels.at(tap_channel.remainder)[0];
    bool exists = true;
    MTF_UNROLL(kMostWindows)
    for (int w = 0; w < kMostWindows; ++w) {
      if (w >= windows) continue;
      const Axis& axis = axes[w];
      const Division p = axis.positions(position), t = axis.taps(tap);
      position = p.quotient;
      tap = t.quotient;
      const int index = axis.begin + static_cast<int>(p.remainder) * axis.position_step +
                        static_cast<int>(t.remainder) * axis.tap_step;
      exists = exists && index >= axis.first && index < axis.end;
      from += index * axis.stride;
    }
    if (exists) moved.value = reinterpret_cast<const Word*>(source)[from + images.at(position)[0]];
    return moved;
  }
};

}  // namespace

int64_t PatchShape::grid() const {
  int64_t size = size_of(images);
  for (const PatchWindow& window : windows) size *= window.positions;
  return size;
}

int64_t PatchShape::depth() const {
  int64_t size = size_of(channels);
  for (const PatchWindow& window : windows) size *= window.taps;
  return size;
}

int64_t PatchShape::row() const {
  const int64_t unit = kRowBytes / element;
  return ceil_divide(grid_last ? grid() : depth(), unit) * unit;
}

PatchCopy make_patch_copy(const PatchShape& shape) {
  // Words of several elements lie along the channels.
  const StridedAxes<1> channels = joined(shape.channels);
  int64_t elements = 1;
  if (!shape.grid_last && !channels.empty() && channels.back().strides[0] == 1) {
    elements = common_word({channels.back().size, std::max<int64_t>(1, shape.alignment / shape.element)});
    for (const StridedAxes<1>* axes : {&shape.groups, &shape.images}) {
      for (const auto& axis : *axes) elements = std::min(elements, common_word({axis.strides[0]}));
    }
    for (size_t a = 0; a + 1 < channels.size(); ++a)
      elements = std::min(elements, common_word({channels[a].strides[0]}));
    for (const PatchWindow& window : shape.windows)
      elements = std::min(elements, common_word({window.stride}));
    elements = std::min(elements, kPackBytes / shape.element);
  }
  const auto in_words = [elements](StridedAxes<1> axes) {
    for (auto& axis : axes) axis.strides[0] /= elements;
    return axes;
  };
  StridedAxes<1> words = channels;
  if (elements > 1) words.back() = {words.back().size / elements, {elements}};
  CopyPatches prepared{};
  prepared.word = elements * shape.element;
  prepared.groups = Strided<1>(in_words(shape.groups));
  prepared.images = Strided<1>(in_words(shape.images));
  prepared.channels = Strided<1>(in_words(words));
  const int64_t grid = shape.grid(), depth = shape.depth() / elements;
  const int64_t inner = shape.grid_last ? grid : depth, outer = shape.grid_last ? depth : grid;
  prepared.size = size_of(shape.groups) * inner * outer;
  prepared.row = shape.row() / elements;
  prepared.matrix = shape.matrix() / elements;
  prepared.grid_last = shape.grid_last;
  prepared.by_inner = Divisor(inner, prepared.size);
  prepared.by_outer = Divisor(outer, prepared.size);
  prepared.by_channels = Divisor(size_of(words), prepared.size);
  const auto narrow_index = [](int64_t index) {
    MTF_CHECK(index > -(int64_t{1} << 31) && index < int64_t{1} << 31, "a window at {}", index);
    return static_cast<int>(index);
  };
  const size_t dimensions = shape.windows.size();
  prepared.windows = static_cast<int>(dimensions);
  for (size_t w = 0; w < dimensions; ++w) {
    const PatchWindow& window = shape.windows[w];
    CopyPatches::Axis& axis = prepared.axes[dimensions - 1 - w];
    axis.positions = Divisor(window.positions, prepared.size);
    axis.taps = Divisor(window.taps, prepared.size);
    axis.stride = window.stride / elements;
    axis.position_step = narrow_index(window.position_step);
    axis.tap_step = narrow_index(window.tap_step);
  }
  return [prepared, narrow_index](const Launcher& launch, const std::byte* source, std::byte* patches,
                                  const std::vector<PatchWindow>& windows) {
    CopyPatches body = prepared;
    body.source = source;
    body.patches = patches;
    for (size_t w = 0; w < windows.size(); ++w) {
      CopyPatches::Axis& axis = body.axes[windows.size() - 1 - w];
      axis.begin = narrow_index(windows[w].begin);
      axis.first = narrow_index(windows[w].first);
      axis.end = narrow_index(windows[w].end);
    }
    launch(over(body.size), body);
  };
}

}  // namespace mtf::cuda
