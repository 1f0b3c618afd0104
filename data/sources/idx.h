// IDX files (yann.lecun.com/exdb/mnist): images and labels as unsigned bytes, plain or gzip-compressed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/source.h"

namespace mtf {

/// Magic number 2051; pixels [images, rows, cols].
struct IdxImages {
  int64_t count = 0;
  int64_t rows = 0;
  int64_t cols = 0;
  std::vector<uint8_t> pixels;
};

/// Reads a file of images or (magic number 2049) of labels. Throws Error (kData) that says what the file has
/// and what was expected: wrong magic number, missing or surplus bytes, no images, damaged compression.
IdxImages read_idx_images(const std::string& path);
std::vector<uint8_t> read_idx_labels(const std::string& path);

inline constexpr std::string_view kImageFeature = "image", kLabelsFeature = "labels";
/// Features `image` float32 [rows, cols] (pixel / 255) and `labels` int32 [].
std::vector<Feature> idx_features(int64_t rows, int64_t cols);

/// Several files are joined in
/// order; the i-th file of labels belongs to the i-th file of images. The pixels stay in memory as bytes.
class IdxSource final : public Source {
 public:
  /// Throws Error (kData) when a file cannot be read or counts or sizes differ. Both lists have the same
  /// length >= 1.
  IdxSource(const std::vector<std::string>& image_paths, const std::vector<std::string>& label_paths);

  int64_t examples() const override { return static_cast<int64_t>(labels_.size()); }
  const std::vector<Feature>& features() const override { return features_; }
  void read(std::span<const int64_t> rows, std::span<const FeatureSlice> slices) const override;
  void check_labels(int64_t classes) const override;
  int64_t bytes_in_memory() const override { return static_cast<int64_t>(pixels_.size() + labels_.size()); }

 private:
  struct LabelFile {
    std::string path;
    int64_t begin;  ///< its first example
  };
  std::vector<Feature> features_;
  std::vector<uint8_t> pixels_;
  std::vector<uint8_t> labels_;
  std::vector<LabelFile> label_files_;
  std::array<float, 256> scaled_;  ///< pixel / 255
};

}  // namespace mtf
