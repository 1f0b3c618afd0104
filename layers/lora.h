// Updates of low rank beside a kernel, for fine-tuning: the kernel stays as it is, and two thin matrices are trained.
// Hu et al., LoRA, 2021, eq. 3.
//
//   y = add(y, lora_update(context, "q", x, Shape{model}, heads, *options.lora));   // beside y = x q
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/config/schema.h"
#include "layers/context.h"

namespace mtf {

/// What the names of the two matrices end with, behind that of their kernel.
inline constexpr const char *kLoraDown = "_lora_a", *kLoraUp = "_lora_b";

/// What help says of the key `lora` of a layer.
inline constexpr std::string_view kLoraHelp =
    "trains a product of two thin matrices beside a kernel, for fine-tuning (docs/weights.md); null: none";

struct LoraOptions {
  int64_t rank = 8;
  double alpha = 16;
  double dropout = 0;

  /// What the product of the two matrices is multiplied by.
  double scale() const { return alpha / static_cast<double>(rank); }
};
void describe(config::Visitor& visit, LoraOptions& options);

/// alpha / rank (dropout(x) a) b. x: [kept.., over..], a: [over.., rank], b: [rank, output..], the result: [kept.., output..].
/// Variables: NAME_lora_a, uniform in +-(size of over)^-1/2, and NAME_lora_b, zeros, so that the first step begins with 0.
Tensor lora_update(Context& context, const std::string& name, const Tensor& x, const Shape& over,
                   const Shape& output, const LoraOptions& options);

}  // namespace mtf
