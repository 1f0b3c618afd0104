#include "data/augment/colors.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace mtf {
namespace {

constexpr float kRed = 0.299f, kGreen = 0.587f, kBlue = 0.114f;

float within(float x) { return std::min(std::max(x, 0.0f), 1.0f); }

int to_byte(float x) { return static_cast<int>(within(x) * 255 + 0.5f); }

/// Calls change(x) for each number of the image.
template <class Change>
void for_each(FloatImage& image, const Change& change) {
  float* const x = image.pixels();
  const int64_t size = image.shape.size();
  for (int64_t i = 0; i < size; ++i) x[i] = change(x[i]);
}

float mean_of_grey(const FloatImage& image) {
  const float* x = image.pixels();
  const int64_t size = image.shape.size();
  if (image.shape.channels != 3) {
    double sums[4] = {};  // four, so that an addition does not wait for the one before
    for (int64_t i = 0; i < size; ++i) sums[i % 4] += x[i];
    return static_cast<float>((sums[0] + sums[1] + sums[2] + sums[3]) / static_cast<double>(size));
  }
  double red = 0, green = 0, blue = 0;
  for (int64_t i = 0; i < size; i += 3) {
    red += x[i];
    green += x[i + 1];
    blue += x[i + 2];
  }
  return static_cast<float>((kRed * red + kGreen * green + kBlue * blue) / static_cast<double>(size / 3));
}

}  // namespace

void change_brightness(FloatImage& image, float factor) {
  for_each(image, [=](float x) { return within(x * factor); });
}

void change_contrast(FloatImage& image, float factor) {
  const float mean = mean_of_grey(image);
  for_each(image, [=](float x) { return within(mean + factor * (x - mean)); });
}

void change_saturation(FloatImage& image, float factor) {
  if (image.shape.channels != 3) return;
  float* x = image.pixels();
  for (const float* const end = x + image.shape.size(); x < end; x += 3) {
    const float grey = kRed * x[0] + kGreen * x[1] + kBlue * x[2];
    for (int k = 0; k < 3; ++k) x[k] = within(grey + factor * (x[k] - grey));
  }
}

/// The hue is a place on a hexagon: 0 red, 2 green, 4 blue. A channel k has max - chroma * clamp(d - 1, 0, 1), where d is
/// the distance on the hexagon from the hue to 2 k.
void turn_hue(FloatImage& image, float turn) {
  if (image.shape.channels != 3) return;
  const float shift = 6 * (turn - std::floor(turn));
  float* x = image.pixels();
  for (const float* const end = x + image.shape.size(); x < end; x += 3) {
    const float red = x[0], green = x[1], blue = x[2];
    const float most = std::max(red, std::max(green, blue)), least = std::min(red, std::min(green, blue));
    const float chroma = most - least;
    if (chroma <= 0) continue;
    const float hue = most == red     ? (green - blue) / chroma
                      : most == green ? 2 + (blue - red) / chroma
                                      : 4 + (red - green) / chroma;
    float place = hue + shift;
    if (place >= 6) place -= 6;
    for (int k = 0; k < 3; ++k) {
      const float apart = std::abs(place - static_cast<float>(2 * k));
      x[k] = most - chroma * within(std::min(apart, 6 - apart) - 1);
    }
  }
}

void change_sharpness(FloatImage& image, float factor) {
  const int64_t rows = image.shape.rows, depth = image.shape.channels, width = image.shape.cols * depth;
  const float* const from = image.pixels();
  float* const output = image.spare();
  std::copy_n(from, image.shape.size(), output);
  for (int64_t r = 1; r + 1 < rows; ++r) {
    for (int64_t i = depth; i < width - depth; ++i) {
      const float* const x = from + r * width + i;
      const float around = x[-width - depth] + x[-width] + x[-width + depth] + x[-depth] + x[depth] +
                           x[width - depth] + x[width] + x[width + depth];
      const float smooth = (around + 5 * x[0]) / 13;
      output[r * width + i] = within(smooth + factor * (x[0] - smooth));
    }
  }
  image.take_spare();
}

void posterize(FloatImage& image, int bits) {
  const int mask = 0xff << (8 - bits) & 0xff;
  for_each(image, [=](float x) { return static_cast<float>(to_byte(x) & mask) / 255; });
}

void solarize(FloatImage& image, float threshold) {
  for_each(image, [=](float x) { return x >= threshold ? 1 - x : x; });
}

void stretch_contrast(FloatImage& image) {
  const int64_t depth = image.shape.channels, size = image.shape.size();
  float* const x = image.pixels();
  for (int64_t k = 0; k < depth; ++k) {
    float least = x[k], most = x[k];
    for (int64_t i = k; i < size; i += depth) {
      least = std::min(least, x[i]);
      most = std::max(most, x[i]);
    }
    if (!(most > least)) continue;
    for (int64_t i = k; i < size; i += depth) x[i] = (x[i] - least) / (most - least);
  }
}

void equalize(FloatImage& image) {
  const int64_t depth = image.shape.channels, size = image.shape.size(), pixels = image.shape.pixels();
  float* const x = image.pixels();
  for (int64_t k = 0; k < depth; ++k) {
    std::array<int64_t, 256> count{};
    for (int64_t i = k; i < size; i += depth) ++count[static_cast<size_t>(to_byte(x[i]))];
    const int64_t last = *std::find_if(count.rbegin(), count.rend(), [](int64_t n) { return n > 0; });
    if (last == pixels) continue;  // all are alike
    std::array<float, 256> table{};
    int64_t below = 0;
    for (size_t value = 0; value < table.size(); ++value) {
      table[value] = std::min(1.0f, static_cast<float>(below) / static_cast<float>(pixels - last));
      below += count[value];
    }
    for (int64_t i = k; i < size; i += depth) x[i] = table[static_cast<size_t>(to_byte(x[i]))];
  }
}

}  // namespace mtf
