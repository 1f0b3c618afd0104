#include "models/logit_soft_cap.h"

#include "engine/ops/cast.h"
#include "engine/ops/fused.h"
#include "engine/ops/unary.h"

namespace mtf {

void describe_logit_soft_cap(config::Visitor& visit, std::optional<double>& cap) {
  visit("logit_soft_cap", cap, "logits become logit_soft_cap * tanh(logits / logit_soft_cap) (Gemma 2)",
        config::positive);
}

Tensor capped_logits(const Tensor& logits, const std::optional<double>& cap) {
  if (!cap) return logits;
  return cast(soft_cap(cast(logits, accumulation_dtype(logits.dtype())), *cap), logits.dtype());
}

}  // namespace mtf
