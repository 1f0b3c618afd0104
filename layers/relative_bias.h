// The learned numbers that attention adds to its logits by the distance of query and memory.
#pragma once

#include <cstdint>
#include <string>

#include "engine/config/schema.h"
#include "layers/attention.h"

namespace mtf {

struct RelativeBiasOptions {
  RelativeAttention relative_attention_type = RelativeAttention::kNone;
  int64_t relative_attention_num_buckets = 32;
  Mark buckets_mark = {};  ///< the place of the number of buckets
};
/// `type`: what the kinds of tables are, for help.
void describe_relative_bias(config::Visitor& visit, RelativeBiasOptions& options, const std::string& type);

struct RelativeBias {
  const RelativeBiasOptions& options;
  std::string variable = "relative_attention_bias";

  /// The table [heads.., buckets] in the current scope, or with bias_shared that of the first layer with equal heads and
  /// buckets; null without relative positions. Throws Error when the number of buckets does not fit `mixing`.
  Tensor table(Context& context, const Shape& heads, const AttentionOptions& mixing) const;
};

}  // namespace mtf
