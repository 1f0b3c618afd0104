// What run.mode=calibrate multiplies, attends to and moves on a device: sizes like those of the models that it trains.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/core/dtype.h"

namespace mtf {

/// Attention of `batch` texts of `length` entries with heads of `width` columns.
struct AttentionSizes {
  int64_t batch, length, width;
  bool causal;
};

struct ProductSizes {
  double rows, columns, summed;
};

struct CalibrationSizes {
  DType dtype = DType::kFloat32;  ///< the type of attention and of the products to which rates are fitted
  std::vector<double> rows, columns, summed;
  double other_summed = 256;  ///< extent that products with transposed factors sum over
  double largest_padding = 64;
  /// The largest products run at the peak: what is added to smaller ones then explains no higher one.
  bool peak_is_reached = false;
  ProductSizes large{2048, 1024, 256};  ///< by which types of factors are compared
  std::vector<AttentionSizes> attention;
  bool segments = true;            ///< attention is within the segments of packed texts
  int64_t row = 256;               ///< columns of what is moved
  int64_t cached = 0, stored = 0;  ///< bytes of a tensor that is in the cache, or in memory
};

/// Where a core has `cache_bytes` of the caches.
inline CalibrationSizes processor_sizes(int64_t cache_bytes) {
  CalibrationSizes sizes;
  sizes.rows = {32, 256, 2048};
  sizes.columns = sizes.summed = {64, 256, 1024};
  sizes.attention = {
      {8, 256, 64, true}, {8, 256, 32, true}, {16, 64, 64, false}, {32, 64, 32, false}, {32, 128, 32, false}};
  sizes.cached = cache_bytes / 8;
  sizes.stored = 2 * cache_bytes;
  return sizes;
}

/// Smaller ones would take a GPU less time than their launches.
inline CalibrationSizes gpu_sizes(int64_t cache_bytes) {
  CalibrationSizes sizes;
  sizes.dtype = DType::kBFloat16;
  sizes.rows = {256, 2048, 16384};
  sizes.columns = sizes.summed = {256, 1024, 4096};
  sizes.other_summed = 1024;
  sizes.largest_padding = 1024;
  sizes.peak_is_reached = true;
  sizes.large = {8192, 4096, 2048};
  sizes.attention = {{16, 1024, 64, true},
                     {8, 2048, 64, true},
                     {4, 2048, 128, true},
                     {64, 256, 64, false},
                     {128, 128, 64, false}};
  sizes.segments = false;
  sizes.row = 1024;
  sizes.cached = cache_bytes / 8;
  sizes.stored = 16 * cache_bytes;
  return sizes;
}

}  // namespace mtf
