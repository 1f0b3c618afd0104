#include "engine/ops/slot_code.h"

#include <fmt/format.h>

#include "engine/core/slot_code.h"
#include "engine/ops/binary.h"
#include "engine/ops/fused.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"

namespace mtf {
namespace {

void check_largest(std::string_view operation, const Shape& shape, const Tensor& largest) {
  const Shape blocks = slot_blocks(shape);
  if (largest.shape() != blocks || largest.dtype() != DType::kFloat32) {
    shape_error(operation,
                fmt::format("the largest magnitudes are {} {}", name_of(largest.dtype()),
                            largest.shape().to_string()),
                fmt::format("float32 {}", blocks.to_string()));
  }
}

}  // namespace

Shape slot_blocks(const Shape& shape) {
  if (shape.rank() == 0) shape_error("slot_blocks", "a scalar has no rows");
  return shape - shape[shape.rank() - 1];
}

Tensor largest_of_blocks(const Tensor& x, DType code) {
  const Shape blocks = slot_blocks(x.shape());
  const Tensor largest = reduce_max(x, blocks);
  return code == DType::kUInt8 ? largest : maximum(largest, negative(reduce_min(x, blocks)));
}

Tensor encode_slot(const Tensor& x, const Tensor& largest, DType code, int64_t first_element) {
  constexpr std::string_view name = "encode_slot";
  if (x.dtype() != DType::kFloat32) shape_error(name, fmt::format("x is {}", name_of(x.dtype())), "float32");
  if (!is_slot_code(code)) shape_error(name, fmt::format("codes of {}", name_of(code)), "int8 or uint8");
  check_largest(name, x.shape(), largest);
  RandomSource source = RandomSource::make(x.graph(), std::string(name), x.shape());
  source.first_element = first_element;
  return x.graph().add<EncodeSlot>(x, largest, code, std::move(source)).output();
}

Tensor decode_slot(const Tensor& codes, const Tensor& largest) {
  constexpr std::string_view name = "decode_slot";
  if (!is_slot_code(codes.dtype()))
    shape_error(name, fmt::format("codes of {}", name_of(codes.dtype())), "int8 or uint8");
  check_largest(name, codes.shape(), largest);
  return codes.graph().add<DecodeSlot>(codes, largest).output();
}

std::string EncodeSlot::attributes() const {
  return fmt::format("{}, name={}", short_name(outputs()[0].dtype), source.name);
}

Tensors EncodeSlot::gradient(const Tensors&) const { not_differentiable(*this); }
Tensors DecodeSlot::gradient(const Tensors&) const { not_differentiable(*this); }

}  // namespace mtf
