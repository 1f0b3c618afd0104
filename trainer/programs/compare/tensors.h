// Compares the tensors of two checkpoints or safetensors files.
//
//   const TensorsComparison tensors = compare_tensors("a/checkpoints/step-00000020", "b.safetensors", 1e-5);
//   for (const TensorDifference& difference : tensors.differences) ...
//
// Only one tensor of each is held in memory at a time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/core/dtype.h"

namespace mtf {

/// A tensor whose elements differ.
struct TensorDifference {
  std::string name;
  int64_t elements = 0;
  int64_t differing = 0;        ///< number of elements that differ by more than the tolerance
  double largest_absolute = 0;  ///< over all elements
  double largest_relative = 0;  ///< over all elements
  /// The index of the first differing element: "[io=3, hidden=5]", "[3, 5]" without names, "" for scalars.
  std::string first_place;
  std::string first_values;  ///< "0.5312 against 0.5313"
  double first_relative = 0;
};

/// A tensor whose dtypes or shapes differ; its elements are not compared.
struct TensorMismatch {
  std::string name;
  std::string a, b;  ///< "float32 [io=16, hidden=32]"
};

struct TensorsComparison {
  int64_t compared = 0;  ///< tensors of the same dtype and shape
  std::vector<std::string> only_a, only_b;
  std::vector<TensorMismatch> mismatches;
  std::vector<TensorDifference> differences;  ///< differing tensors, in the order of the first checkpoint
  double largest_relative = 0;                ///< over all tensors, within the tolerance or not
  std::string largest_in;                     ///< the tensor with largest_relative

  bool same() const { return only_a.empty() && only_b.empty() && mismatches.empty() && differences.empty(); }
};

/// Compares the tensors at two paths, of checkpoint directories or safetensors files. Differences are
/// relative to the largest of the two elements and the root mean square of their tensors, so that rounding of
/// an element near zero is not a large difference. A `tolerance` of 0 requires equal bits. NaN equals NaN;
/// integers and booleans must be equal. Throws Error (kCheckpoint) when a path cannot be read or is damaged.
TensorsComparison compare_tensors(const std::string& path_a, const std::string& path_b, double tolerance);

}  // namespace mtf
