#include "engine/graph/variable.h"

#include <algorithm>
#include <cmath>

namespace mtf {

Initializer Initializer::variance_scaling(int64_t fan, double scale) {
  return truncated_normal(std::sqrt(scale / static_cast<double>(std::max<int64_t>(1, fan))));
}

}  // namespace mtf
