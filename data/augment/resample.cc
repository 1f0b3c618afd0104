#include "data/augment/resample.h"

#include <algorithm>
#include <vector>

#include "data/images/triangle_filter.h"

namespace mtf {
namespace {

using FloatFilter = NeighbourFilter<float>;

FloatFilter triangle_taps(int64_t size, double from, double length, int64_t result_size) {
  return triangle_filter<float>(size, from, from + length, result_size,
                                [](double weight) { return static_cast<float>(weight); });
}

/// `channels` 0: any number, known only now.
template <int channels>
void filter_float_cols(const float* from, int64_t depth, const FloatFilter& filter, float* output) {
  if (channels > 0) depth = channels;
  for (const FloatFilter::Taps& taps : filter.taps) {
    const float* const weights = filter.weights.data() + taps.weights;
    const float* pixel = from + taps.begin * depth;
    for (int64_t k = 0; k < depth; ++k) output[k] = weights[0] * pixel[k];
    for (int64_t i = 1; i < taps.count; ++i) {
      pixel += depth;
      for (int64_t k = 0; k < depth; ++k) output[k] += weights[i] * pixel[k];
    }
    output += depth;
  }
}

}  // namespace

void resample(FloatImage& image, const ImagePart& part, int64_t rows, int64_t cols) {
  const int64_t depth = image.shape.channels, width = cols * depth;
  const FloatFilter vertical = triangle_taps(image.shape.rows, part.top, part.rows, rows);
  const FloatFilter horizontal = triangle_taps(image.shape.cols, part.left, part.cols, cols);
  const int64_t first = vertical.input_begin();
  const auto filter_channels = depth == 1   ? filter_float_cols<1>
                               : depth == 3 ? filter_float_cols<3>
                                            : filter_float_cols<0>;
  for (int64_t r = first; r < vertical.input_end(); ++r)
    filter_channels(image.row(r), depth, horizontal, image.spare() + (r - first) * width);
  image.take_spare();
  image.shape.cols = cols;
  image.shape.rows = vertical.input_end() - first;
  float* output = image.spare();
  for (const FloatFilter::Taps& taps : vertical.taps) {
    const float* const weights = vertical.weights.data() + taps.weights;
    const float* from = image.row(taps.begin - first);
    for (int64_t x = 0; x < width; ++x) output[x] = weights[0] * from[x];
    for (int64_t i = 1; i < taps.count; ++i) {
      from += width;
      for (int64_t x = 0; x < width; ++x) output[x] += weights[i] * from[x];
    }
    output += width;
  }
  image.take_spare();
  image.shape.rows = rows;
}

void cut(FloatImage& image, int64_t top, int64_t left, int64_t rows, int64_t cols) {
  const int64_t depth = image.shape.channels;
  const int64_t begin = std::clamp<int64_t>(-left, 0, cols);
  const int64_t end = std::clamp<int64_t>(image.shape.cols - left, begin, cols);
  float* output = image.spare();
  for (int64_t r = 0; r < rows; ++r, output += cols * depth) {
    const bool inside = top + r >= 0 && top + r < image.shape.rows && begin < end;
    if (!inside) {
      std::fill_n(output, cols * depth, 0.0f);
      continue;
    }
    std::fill_n(output, begin * depth, 0.0f);
    std::copy_n(image.row(top + r) + (left + begin) * depth, (end - begin) * depth, output + begin * depth);
    std::fill_n(output + end * depth, (cols - end) * depth, 0.0f);
  }
  image.take_spare();
  image.shape.rows = rows;
  image.shape.cols = cols;
}

}  // namespace mtf
