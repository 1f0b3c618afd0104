// The component-wise functions of one operand.
#pragma once

#include <vector>

#include "engine/ops/component_wise.h"

namespace mtf::testing {

using ComponentWiseFunction = Tensor (*)(const Tensor&);

inline const std::vector<ComponentWiseFunction> kComponentWiseFunctions = {
    negative,
    reciprocal,
    square,
    sqrt,
    rsqrt,
    exp,
    log,
    sin,
    cos,
    abs,
    sign,
    relu,
    elu,
    selu,
    softplus,
    sigmoid,
    tanh,
    swish,
    gelu,
    squared_relu,
    [](const Tensor& x) { return pow(x, 0.6); },
    [](const Tensor& x) { return pow(x, 3); },
    [](const Tensor& x) { return scalar_multiply(x, -1.5); },
    [](const Tensor& x) { return scalar_add(x, 0.25); },
    [](const Tensor& x) { return leaky_relu(x, 0.3); },
};

}  // namespace mtf::testing
