// Activation functions by name.
#pragma once

#include <string>
#include <vector>

#include "engine/config/schema.h"
#include "layers/context.h"

namespace mtf {

enum class Activation {
  kLinear,
  kRelu,
  kSquaredRelu,
  kLeakyRelu,
  kGelu,
  kGeluErf,
  kSwish,
  kSigmoid,
  kTanh,
  kElu,
  kSelu,
  kSoftplus,
  kExp,
  kSquare,
  kAbs,
  kSin,
  kCos
};
/// With the names that other programs have for the same functions, such as silu.
config::EnumNames enum_names(Activation);
config::CommonNames common_names(Activation);

/// Formulas: engine/ops/unary.h. gelu is the tanh approximation of gelu_erf, leaky_relu has slope 0.2, swish is
/// x sigmoid(x).
Tensor activate(const Tensor& x, Activation activation);

/// The key `activation` of a layer whose results by several functions are multiplied.
void describe_activations(config::Visitor& visit, std::vector<Activation>& activations,
                          const std::string& meaning);

}  // namespace mtf
