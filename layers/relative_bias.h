// The learned numbers that attention adds to its logits by the distance of query and memory.
#pragma once

#include <cstdint>
#include <string>

#include "layers/attention.h"

namespace mtf {

struct RelativeBias {
  RelativeAttention type = RelativeAttention::kNone;
  int64_t buckets = 32;
  std::string variable = "relative_attention_bias";

  /// The table [heads.., buckets] in the current scope, or with bias_shared that of the first layer with equal heads and
  /// buckets; null without relative positions. Throws Error when the number of buckets does not fit `mixing`.
  Tensor table(Context& context, const Shape& heads, const AttentionOptions& mixing) const;
};

}  // namespace mtf
