// Rounds float32 to bfloat16 at random, without a bias: optimizer slots are stored so (precision.slots).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/graph/graph.h"
#include "engine/ops/random.h"

namespace mtf {

/// Returns x in bfloat16. Each element becomes one of its two neighbours, with probabilities that make its mean the
/// element itself (engine/core/stochastic_rounding.h). The random numbers are those of this operation, the step and the
/// element's global index, so that results do not depend on the layout; indices begin at `first_element` where x is a part
/// of a larger tensor. Throws Error unless x is float32.
Tensor stochastic_cast(const Tensor& x, int64_t first_element = 0);

class StochasticCast final : public OperationBase<StochasticCast> {
 public:
  StochasticCast(const Tensor& x, RandomSource source)
      : OperationBase({x}, {{x.shape(), DType::kBFloat16}}), source(std::move(source)) {}
  std::string_view name() const override { return "stochastic_cast"; }
  std::string attributes() const override;
  Tensors gradient(const Tensors& dy) const override;
  bool is_groupable() const override { return true; }

  RandomSource source;
};

}  // namespace mtf
