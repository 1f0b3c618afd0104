#include "data/images/resize.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "data/images/triangle_filter.h"
#include "engine/base/dispatch.h"

namespace mtf {

config::EnumNames enum_names(ResizeRule) {
  return {{"stretch", ResizeRule::kStretch}, {"crop", ResizeRule::kCrop}, {"pad", ResizeRule::kPad}};
}

namespace {

/// Weights are whole numbers of 2^-22, so that sums of products with bytes fit into 32 bits.
constexpr int kPrecisionBits = 32 - 8 - 2;

/// A range of indices, in general not from one whole number to another. Pillow has it in float32.
struct Range {
  float begin, end;
};

using Filter = NeighbourFilter<int32_t>;

Filter triangle(int64_t size, const Range& from, int64_t result_size) {
  const float length = from.end - from.begin;  // rounded to float32, as by Pillow
  return triangle_filter<int32_t>(
      size, from.begin, double{from.begin} + length, result_size,
      [](double weight) { return static_cast<int32_t>(0.5 + weight * (1 << kPrecisionBits)); });
}

MTF_INLINE uint8_t rounded(int32_t sum) {
  return static_cast<uint8_t>(std::clamp(sum >> kPrecisionBits, 0, 255));
}

constexpr int32_t kHalf = 1 << (kPrecisionBits - 1);

using Sums = int32_t __attribute__((vector_size(16)));
using Bytes16 = uint8_t __attribute__((vector_size(16)));

/// Four bytes as whole numbers. (A conversion of vectors takes GCC 12 five times as long.)
MTF_INLINE Sums widened(const uint8_t* from) {
  Bytes16 bytes{};
  std::memcpy(&bytes, from, 4);
  const Bytes16 zeros{};
  return reinterpret_cast<Sums>(
      __builtin_shufflevector(bytes, zeros, 0, 16, 16, 16, 1, 16, 16, 16, 2, 16, 16, 16, 3, 16, 16, 16));
}

/// `from` may be read up to three bytes behind its last pixel.
template <int channels>
MTF_INLINE void filter_row(const uint8_t* from, const Filter& filter, uint8_t* output) {
  for (const Filter::Taps& taps : filter.taps) {
    Sums sums = {kHalf, kHalf, kHalf, kHalf};
    const uint8_t* pixel = from + taps.begin * channels;
    const int32_t* weights = filter.weights.data() + taps.weights;
    for (int64_t i = 0; i < taps.count; ++i, pixel += channels) sums += widened(pixel) * weights[i];
    for (int channel = 0; channel < channels; ++channel) *output++ = rounded(sums[channel]);
  }
}

/// Rows first_row .. first_row + rows of `image` with other columns.
Image filter_cols(const Image& image, const Filter& filter, int64_t first_row, int64_t rows) {
  Image result{rows, std::ssize(filter.taps), image.channels, {}};
  result.pixels.resize(static_cast<size_t>(result.rows * result.cols * result.channels));
  const auto filter_channels = image.channels == 1 ? dispatched<filter_row<1>> : dispatched<filter_row<3>>;
  const int64_t width = image.cols * image.channels;
  std::vector<uint8_t> last(static_cast<size_t>(width) + 4);
  for (int64_t r = first_row; r < first_row + rows; ++r) {
    const bool is_last = (image.rows - 1 - r) * width < 3;  // what is read behind it would not be there
    if (is_last) std::copy_n(image.row(r), width, last.data());
    filter_channels(is_last ? last.data() : image.row(r), filter, result.row(r - first_row));
  }
  return result;
}

/// A part of a row of the result: sums of rows of the input, `stride` bytes apart.
MTF_INLINE void mix_rows(const uint8_t* from, int64_t stride, const int32_t* weights, int64_t count,
                         int64_t width, uint8_t* output) {
  constexpr int64_t kTogether = 64;  // their sums stay in registers or the nearest cache
  for (int64_t begin = 0; begin < width; begin += kTogether) {
    const int64_t size = std::min(kTogether, width - begin);
    int32_t sums[kTogether];
    for (int64_t x = 0; x < size; ++x) sums[x] = kHalf;
    for (int64_t i = 0; i < count; ++i) {
      const uint8_t* const row = from + i * stride + begin;
      for (int64_t x = 0; x < size; ++x) sums[x] += row[x] * weights[i];
    }
    for (int64_t x = 0; x < size; ++x) output[begin + x] = rounded(sums[x]);
  }
}

/// `image` holds the rows of the input from `first_row` on.
Image filter_rows(const Image& image, const Filter& filter, int64_t first_row) {
  Image result{std::ssize(filter.taps), image.cols, image.channels, {}};
  const int64_t width = image.cols * image.channels;
  result.pixels.resize(static_cast<size_t>(result.rows * width));
  for (int64_t r = 0; r < result.rows; ++r) {
    const Filter::Taps& taps = filter.taps[static_cast<size_t>(r)];
    dispatched<mix_rows>(image.row(taps.begin - first_row), width, filter.weights.data() + taps.weights,
                         taps.count, width, result.row(r));
  }
  return result;
}

/// Scales a part of the image.
Image scaled(const Image& image, const Range& of_rows, const Range& of_cols, int64_t rows, int64_t cols) {
  const auto is_whole = [](const Range& range, int64_t size, int64_t result) {
    return range.begin == 0 && range.end == static_cast<float>(size) && size == result;
  };
  const bool same_rows = is_whole(of_rows, image.rows, rows), same_cols = is_whole(of_cols, image.cols, cols);
  if (same_rows && same_cols) return image;
  const Filter vertical = triangle(image.rows, of_rows, rows);
  const int64_t first = same_rows ? 0 : vertical.input_begin();
  const int64_t count = same_rows ? image.rows : vertical.input_end() - first;
  if (same_cols) return filter_rows(image, vertical, 0);
  const Image narrow = filter_cols(image, triangle(image.cols, of_cols, cols), first, count);
  return same_rows ? narrow : filter_rows(narrow, vertical, first);
}

Range whole(int64_t size) { return {0, static_cast<float>(size)}; }

/// The middle of `size` entries.
Range middle(double size, double length) {
  const double cut = (size - length) / 2;
  return {static_cast<float>(cut), static_cast<float>(size - cut)};
}

Image cropped(const Image& image, int64_t rows, int64_t cols) {
  Range of_rows = whole(image.rows), of_cols = whole(image.cols);
  const auto height = static_cast<double>(image.rows), width = static_cast<double>(image.cols);
  const double aspect = static_cast<double>(cols) / static_cast<double>(rows);
  if (image.cols * rows > image.rows * cols) {
    of_cols = middle(width, height * aspect);
  } else if (image.cols * rows < image.rows * cols) {
    of_rows = middle(height, width / aspect);
  }
  return scaled(image, of_rows, of_cols, rows, cols);
}

Image padded(const Image& image, int64_t rows, int64_t cols) {
  const auto part = [](int64_t size, int64_t of, int64_t other) {
    return std::max<int64_t>(1, (2 * size * of + other) / (2 * other));  // rounded
  };
  const bool is_wide = image.cols * rows > image.rows * cols;
  const int64_t inner_rows = is_wide ? std::min(rows, part(cols, image.rows, image.cols)) : rows;
  const int64_t inner_cols = is_wide ? cols : std::min(cols, part(rows, image.cols, image.rows));
  const Image inner = scaled(image, whole(image.rows), whole(image.cols), inner_rows, inner_cols);
  Image result{rows, cols, image.channels,
               std::vector<uint8_t>(static_cast<size_t>(rows * cols * image.channels))};
  const int64_t top = (rows - inner_rows) / 2, left = (cols - inner_cols) / 2;
  for (int64_t r = 0; r < inner_rows; ++r)
    std::copy_n(inner.row(r), inner_cols * image.channels, result.row(top + r) + left * image.channels);
  return result;
}

}  // namespace

Image resized(const Image& image, int64_t rows, int64_t cols, ResizeRule rule) {
  switch (rule) {
    case ResizeRule::kCrop:
      return cropped(image, rows, cols);
    case ResizeRule::kPad:
      return padded(image, rows, cols);
    case ResizeRule::kStretch:
      break;
  }
  return scaled(image, whole(image.rows), whole(image.cols), rows, cols);
}

}  // namespace mtf
