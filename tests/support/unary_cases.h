// The elementwise functions of one operand.
#pragma once

#include <vector>

#include "engine/ops/unary.h"

namespace mtf::testing {

using UnaryCase = Tensor (*)(const Tensor&);

inline const std::vector<UnaryCase> kUnaryCases = {
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
    gelu_erf,
    [](const Tensor& x) { return pow(x, 0.6); },
    [](const Tensor& x) { return pow(x, 3); },
    [](const Tensor& x) { return scalar_multiply(x, -1.5); },
    [](const Tensor& x) { return scalar_add(x, 0.25); },
    [](const Tensor& x) { return leaky_relu(x, 0.3); },
};

/// The functions whose gradient is a single kernel.
inline const std::vector<UnaryFunction> kWithGradientKernel = {
    UnaryFunction::kRelu,     UnaryFunction::kLeakyRelu,   UnaryFunction::kElu,    UnaryFunction::kSelu,
    UnaryFunction::kSoftplus, UnaryFunction::kSigmoid,     UnaryFunction::kTanh,   UnaryFunction::kSwish,
    UnaryFunction::kGelu,     UnaryFunction::kSquaredRelu, UnaryFunction::kGeluErf};

}  // namespace mtf::testing
