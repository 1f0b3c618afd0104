// How many tokens of a group an expert takes.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "layers/experts/options.h"

namespace mtf {

/// Places of an expert for a group of `group` tokens, at most one for each token.
inline int64_t expert_capacity(const MoeOptions& options, int64_t group, bool training) {
  const double factor = training ? options.capacity_factor_train : options.capacity_factor_eval;
  const double share = static_cast<double>(group) * factor / static_cast<double>(options.num_experts);
  const int64_t places =
      options.is_top_k()
          ? static_cast<int64_t>(std::ceil(share * static_cast<double>(options.experts_per_token)))
          : std::max(static_cast<int64_t>(share), options.min_expert_capacity);
  return std::min(group, places);
}

}  // namespace mtf
