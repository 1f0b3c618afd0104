// Fully connected layers: a contraction with a kernel over any set of named dimensions.
//
//   Tensor q = dense(context, "q", x, {heads, d_kv}, {.over = {d_model}, .bias = false});
//   Tensor h = dense_product(context, "wi", x, {d_ff}, {Activation::kGelu, Activation::kLinear}, {.bias =
//   false});
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "layers/activation.h"
#include "layers/context.h"
#include "layers/initializer.h"
#include "layers/lora.h"

namespace mtf {

struct DenseArguments {
  std::optional<Shape> over = {};  ///< contracted dimensions of x; nothing: the last one
  Shape experts = {};              ///< dimensions of x whose entries have kernels of their own
  Activation activation = Activation::kLinear;
  bool bias = true;
  InitializerOptions kernel_initializer = {};
  InitializerOptions bias_initializer = ZerosInitializer{};
  std::optional<LoraOptions> lora = {};
};

/// y = activation(x · kernel + bias).  x: [kept.., over..], kernel: [experts.., over.., output..], bias:
/// [experts.., output..], y: [kept.., output..]. Where `over` and `output` share a name, x's dimension gets a
/// leading `_` in the kernel. Variables: SCOPE/name/kernel and SCOPE/name/bias, with `lora` kernel_lora_a and kernel_lora_b; an
/// empty `name` adds no scope. Throws Error when `over` is not in x, or `output` names a dimension that stays.
Tensor dense(Context& context, const std::string& name, const Tensor& x, const Shape& output,
             const DenseArguments& arguments = {});

/// The product of one dense for each of `activations` (gated linear units: Shazeer, GLU variants improve
/// Transformer, 2020). Variables: name/.. for one activation, name_0/.., name_1/.. for several.
/// arguments.activation is not used.
Tensor dense_product(Context& context, const std::string& name, const Tensor& x, const Shape& output,
                     const std::vector<Activation>& activations, const DenseArguments& arguments = {});

/// x with a leading `_` at each name of `over`, the contracted dimensions, that is also in `output`; `over` follows. Throws
/// Error when `output` names another dimension of x. `layer`: its name in errors.
Tensor rename_reused(std::string_view layer, Tensor x, Shape& over, const Shape& output);

}  // namespace mtf
