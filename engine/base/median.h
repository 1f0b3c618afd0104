#pragma once

#include <algorithm>
#include <vector>

namespace mtf {

/// Returns the middle one of `numbers`, of which there must be some; of an even count the larger one in the middle.
inline double median(std::vector<double> numbers) {
  std::ranges::sort(numbers);
  return numbers[numbers.size() / 2];
}

}  // namespace mtf
