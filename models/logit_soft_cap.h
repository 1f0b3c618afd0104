// The key logit_soft_cap of models that predict tokens.
#pragma once

#include <optional>

#include "engine/config/schema.h"
#include "engine/graph/tensor.h"

namespace mtf {

void describe_logit_soft_cap(config::Visitor& visit, std::optional<double>& cap);

/// cap * tanh(logits / cap) in the type of the logits, computed in float32 for bfloat16; without a cap the logits.
Tensor capped_logits(const Tensor& logits, const std::optional<double>& cap);

}  // namespace mtf
