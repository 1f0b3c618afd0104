// IDX files (yann.lecun.com/exdb/mnist): arrays of any rank and element type, plain or gzip-compressed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/elements.h"
#include "data/sources/array_source.h"
#include "engine/config/types.h"

namespace mtf {

/// The content of a file. Numbers are big-endian, the last dimension runs fastest.
struct IdxArray {
  StoredType type = StoredType::kUint8;
  std::vector<int64_t> sizes;
  std::vector<std::byte> bytes;
};

/// What a file should hold: labels may have one dimension, images have at least two.
enum class IdxContent { kImages, kLabels };

/// Reads a file. Throws Error (kData) that says what the file has and what was expected: wrong magic number, missing or
/// surplus bytes, no examples, damaged compression.
IdxArray read_idx(const std::string& path, IdxContent content);

/// Features `image` float32 [rows, cols] and `labels` int32 [].
std::vector<Feature> idx_features(int64_t rows, int64_t cols);

/// Opens files of images and of their labels, or of images alone; several are joined in order. `image` is float32: uint8
/// divided by 255, other types as they are. `labels` is int32, or float32 where the file has floating-point numbers.
/// `dimensions` names the dimensions of an image; labels of more than one number have the first of them. `class_names`
/// are those of all classes of the model (`mark`: their place), or empty. Throws Error (kData) when a file cannot be read,
/// counts or sizes differ, or only some images are uint8. Both lists have the same length >= 1, or there are no labels.
std::unique_ptr<ArraySource> open_idx(const std::vector<std::string>& image_paths,
                                      const std::vector<std::string>& label_paths,
                                      const std::vector<config::Name>& dimensions = {}, const Mark& mark = {},
                                      std::vector<std::string> class_names = {});

}  // namespace mtf
