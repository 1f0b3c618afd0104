// The first value of a step that is not finite: where it comes from, and what it holds.
//
//   if (const std::optional<NonFinite> found = executor.first_non_finite(step))
//     report(found->tensor, found->layer, found->nans);
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "engine/core/dtype.h"

namespace mtf {

/// Counts are over all slices of the tensor that this process stores, each distinct one once.
struct NonFinite {
  std::string tensor;     ///< program line of the instruction, "variable `x`" or "input `image`"
  std::string operation;  ///< "log"; empty: the value was there before the step
  std::string layer;      ///< path of the layer; may be empty
  double smallest = 0;    ///< of the finite values; 0 when there are none
  double largest = 0;
  int64_t nans = 0;
  int64_t infinities = 0;
  int64_t count = 0;  ///< all values
};

/// Adds `count` values to the numbers of `found`. Integers and bools are always finite, and are not looked
/// at.
void examine(DType dtype, const std::byte* data, int64_t count, NonFinite& found);

}  // namespace mtf
