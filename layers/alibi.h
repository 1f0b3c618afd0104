// ALiBi: the logits of each head fall linearly with the distance of what is looked at. Press et al., Train Short, Test Long,
// 2022.
//
//   add_alibi(inputs, projections.query_heads(), position);
//   mixing.key = kAlibiKey;
#pragma once

#include <string_view>

#include "engine/graph/tensor.h"
#include "engine/ops/attention.h"

namespace mtf {

/// The entries of queries and keys with those of ALiBi behind d_kv.
inline constexpr std::string_view kAlibiKey = "alibi_d_kv";

/// Adds entries to inputs.q and inputs.k, [.., d_kv], so that the logits of a head grow by its slope with each position of the
/// memory. Weights are those of -slope * distance, since a softmax does not change where all logits of a query do; this holds
/// where no later position is seen. `heads`: the dimensions of the queries' heads; position: int32, of the keys.
void add_alibi(AttentionInputs& inputs, const Shape& heads, const Tensor& position);

}  // namespace mtf
