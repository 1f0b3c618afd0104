// The size of property tests: MTF_TEST_BUDGET, in percent, scales the number of random cases (100: as continuous integration runs them).
#pragma once

#include <algorithm>
#include <cstdlib>

namespace mtf::testing {

/// The number of cases to try of `full`, those of a budget of 100; at least one.
inline int tries(int full) {
  const char* budget = std::getenv("MTF_TEST_BUDGET");
  return std::max(1, budget == nullptr ? full : full * std::atoi(budget) / 100);
}

}  // namespace mtf::testing
