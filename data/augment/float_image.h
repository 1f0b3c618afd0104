// An image that augmentations work on, one after the other: [rows, cols, channels], row-major, float32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace mtf {

/// What is known of an image before any is read.
struct ImageShape {
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t channels = 0;
  bool normalized = false;  ///< its numbers are no longer colours from 0 to 1

  int64_t pixels() const { return rows * cols; }
  int64_t size() const { return rows * cols * channels; }
  friend bool operator==(const ImageShape&, const ImageShape&) = default;
};

/// Holds an image, and as much memory again for the next one.
class FloatImage {
 public:
  /// `capacity`: numbers of the largest image or intermediate result.
  explicit FloatImage(int64_t capacity)
      : memory_(static_cast<size_t>(2 * capacity)), now_(memory_.data()), spare_(now_ + capacity) {}
  FloatImage(const FloatImage&) = delete;
  FloatImage& operator=(const FloatImage&) = delete;

  ImageShape shape;

  float* pixels() { return now_; }
  const float* pixels() const { return now_; }
  float* row(int64_t r) { return now_ + r * shape.cols * shape.channels; }
  /// Memory of the same capacity; what is written there becomes the image by take_spare().
  float* spare() { return spare_; }
  void take_spare() { std::swap(now_, spare_); }

 private:
  std::vector<float> memory_;
  float* now_;
  float* spare_;
};

}  // namespace mtf
