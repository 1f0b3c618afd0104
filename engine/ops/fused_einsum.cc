#include "engine/ops/fused_einsum.h"

namespace mtf {
namespace {

Tensors operands(const Einsum& einsum, const Tensor& bias) {
  Tensors inputs = einsum.inputs();
  if (bias) inputs.push_back(bias);
  return inputs;
}

}  // namespace

FusedEinsum::FusedEinsum(const Einsum& einsum, const Tensor& bias, bool gelu)
    : OperationBase(operands(einsum, bias), einsum.outputs()), gelu(gelu), tf32(einsum.tf32) {}

std::string FusedEinsum::attributes() const {
  std::string text;
  const auto add = [&](bool has, const char* attribute) {
    if (has) text += (text.empty() ? "" : ", ") + std::string(attribute);
  };
  add(tf32, "tf32");
  add(inputs().size() > 2, "bias");
  add(gelu, "gelu");
  return text;
}

Cost FusedEinsum::cost(const std::vector<Shape>& inputs, const std::vector<Shape>& outputs) const {
  Cost cost = Operation::cost(inputs, outputs);
  cost.flops = 2.0 * static_cast<double>((inputs[0] + inputs[1]).size());
  return cost;
}

}  // namespace mtf
