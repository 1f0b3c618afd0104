#include "engine/ops/affine.h"

#include <fmt/format.h>

#include "engine/ops/cast.h"
#include "engine/ops/fused.h"
#include "engine/ops/moments.h"

namespace mtf {
namespace {

constexpr std::string_view kAffine = "affine";

void check_coefficient(const Tensor& x, const Tensor& scale, const Tensor& coefficient) {
  if (coefficient.shape() != scale.shape() || !x.shape().contains_all(scale.shape()) ||
      coefficient.dtype() != accumulation_dtype(x.dtype())) {
    shape_error(kAffine,
                fmt::format("a coefficient {} {} of {} {}", name_of(coefficient.dtype()),
                            coefficient.shape().to_string(), name_of(x.dtype()), x.shape().to_string()),
                fmt::format("{}, all of one shape", name_of(accumulation_dtype(x.dtype()))));
  }
}

}  // namespace

Affine::Affine(Tensors inputs) : OperationBase(inputs, {{inputs[0].shape(), inputs[0].dtype()}}) {
  const Tensor &x = inputs[0], &scale = inputs[1];
  if (!is_floating(x.dtype())) shape_error(kAffine, fmt::format("not defined for {}", name_of(x.dtype())));
  for (size_t i : {1, 2}) check_coefficient(x, scale, inputs[i]);
  if (!has_second()) return;
  check_coefficient(x, scale, inputs[4]);
  if (inputs[3].shape() != x.shape() || inputs[3].dtype() != x.dtype())
    shape_error(kAffine, fmt::format("of {} and {}", x.shape().to_string(), inputs[3].shape().to_string()));
}

Tensors Affine::gradient(const Tensors& dy) const {
  const Tensor &scale = input(1), zero = graph().constant(0, scale.dtype(), scale.shape());
  const auto sums = [&](const Tensor& x) {
    const auto [sum, product] = moments(x, dy[0], scale.shape());
    return std::pair(cast(sum, scale.dtype()), cast(product, scale.dtype()));
  };
  const auto [d_shift, d_scale] = sums(input(0));
  Tensors gradients{affine(dy[0], scale, zero), d_scale, d_shift};
  if (has_second()) {
    gradients.push_back(affine(dy[0], input(4), zero));
    gradients.push_back(sums(input(3)).second);
  }
  return gradients;
}

Tensor affine(const Tensor& x, const Tensor& scale, const Tensor& shift) {
  return x.graph().add<Affine>(Tensors{x, scale, shift}).output();
}

Tensor affine(const Tensor& x, const Tensor& scale, const Tensor& y, const Tensor& weight,
              const Tensor& shift) {
  return x.graph().add<Affine>(Tensors{x, scale, shift, y, weight}).output();
}

}  // namespace mtf
