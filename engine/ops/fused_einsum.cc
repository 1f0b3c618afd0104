#include "engine/ops/fused_einsum.h"

#include "engine/base/check.h"

namespace mtf {
namespace {

Tensors operands(const Einsum& einsum, const EinsumEpilogue& epilogue) {
  Tensors inputs = einsum.inputs();
  for (const Tensor& tensor : {epilogue.bias, epilogue.addend}) {
    if (tensor) inputs.push_back(tensor);
  }
  return inputs;
}

}  // namespace

FusedEinsum::FusedEinsum(const Einsum& einsum, const EinsumEpilogue& epilogue)
    : OperationBase(operands(einsum, epilogue), einsum.outputs()),
      has_bias(epilogue.bias),
      has_addend(epilogue.addend),
      activation(epilogue.activation),
      precision(einsum.precision) {
  MTF_CHECK(!activation || *activation == UnaryFunction::kGelu || *activation == UnaryFunction::kRelu,
            "a contraction with another activation than gelu and relu");
}

std::string FusedEinsum::attributes() const {
  std::string text;
  const auto add = [&](bool has, std::string_view attribute) {
    if (has) text += (text.empty() ? "" : ", ") + std::string(attribute);
  };
  add(precision != MatmulPrecision::kFull, short_name(precision));
  add(has_bias, "bias");
  add(has_addend, "addend");
  add(activation == UnaryFunction::kGelu, "gelu");
  add(activation == UnaryFunction::kRelu, "relu");
  return text;
}

std::optional<int> FusedEinsum::in_place(int) const {
  return has_addend ? std::optional(static_cast<int>(inputs().size()) - 1) : std::nullopt;
}

Cost FusedEinsum::cost(const std::vector<Shape>& inputs, const std::vector<Shape>& outputs) const {
  Cost cost = Operation::cost(inputs, outputs);
  cost.flops = 2.0 * static_cast<double>((inputs[0] + inputs[1]).size());
  return cost;
}

}  // namespace mtf
