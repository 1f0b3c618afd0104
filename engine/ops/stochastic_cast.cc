#include "engine/ops/stochastic_cast.h"

#include <fmt/format.h>

#include "engine/ops/fused.h"

namespace mtf {

std::string StochasticCast::attributes() const { return fmt::format("bf16, name={}", source.name); }

Tensors StochasticCast::gradient(const Tensors&) const { not_differentiable(*this); }

Tensor stochastic_cast(const Tensor& x, int64_t first_element) {
  constexpr std::string_view name = "stochastic_cast";
  if (x.dtype() != DType::kFloat32) shape_error(name, fmt::format("x is {}", name_of(x.dtype())), "float32");
  RandomSource source = RandomSource::make(x.graph(), std::string(name), x.shape());
  source.first_element = first_element;
  return x.graph().add<StochasticCast>(x, std::move(source)).output();
}

}  // namespace mtf
