// Cases of products of 8-bit codes.
#include "engine/ops/cast.h"
#include "engine/ops/int8_product.h"
#include "engine/ops/unary.h"
#include "tests/support/operation_cases.h"

namespace mtf::testing {
namespace {

const Dimension batch{"batch", 4}, length{"length", 6};

/// x times w, rounded to codes. No gradient passes through codes.
Tensor coded_product(CaseBuilder& c, const Shape& rows, const Shape& columns, const Shape& summed,
                     bool in_blocks) {
  const Tensor x = cast(c.input("x", rows + summed), DType::kFloat32),
               w = cast(c.input("w", summed + columns), DType::kFloat32);
  const Tensor y = int8_product(quantize_rows(x, summed), quantize_weight(w, columns, summed, in_blocks));
  return stop_gradient(cast(y, c.floating));
}

const CaseRegistration int8_product_case(
    "stop_gradient quantize_rows quantize_weight int8_product int8_sums", [](CaseBuilder& c) {
      return Tensors{coded_product(c, {batch, length}, {{"hidden", 32}}, {{"d", 8}}, true)};
    });

const CaseRegistration int8_product_of_heads(
    "stop_gradient quantize_rows quantize_weight int8_product int8_sums", [](CaseBuilder& c) {
      return Tensors{
          coded_product(c, {batch}, {{"heads", 2}, {"d_kv", 32}}, {{"parts", 2}, {"d", 16}}, true)};
    });

const CaseRegistration int8_product_without_blocks(
    "stop_gradient quantize_rows quantize_weight int8_product int8_sums", [](CaseBuilder& c) {
      return Tensors{coded_product(c, {batch}, {{"hidden", 6}}, {{"d", 10}}, false)};
    });

}  // namespace
}  // namespace mtf::testing
