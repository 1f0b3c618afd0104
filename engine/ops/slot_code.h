// Optimizer slots in 8 bits (precision.slots: int8): codes, and the largest magnitude of each block of them. A block is a
// row, all entries of the last dimension, so that blocks do not depend on layouts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/graph/graph.h"
#include "engine/ops/random.h"

namespace mtf {

/// The shape of the largest magnitudes: one for each row.
Shape slot_blocks(const Shape& shape);
/// The largest magnitude of each row of x; `code` is the type of the codes that x will have.
Tensor largest_of_blocks(const Tensor& x, DType code);
/// Returns x (float32) as codes of type `code`: kUInt8 for values that are not negative, kInt8 for others. Each element
/// becomes one of its neighbours at random (engine/core/slot_code.h), by numbers that do not depend on the layout; those of
/// elements begin at `first_element` where x is a part of a larger tensor. `largest`: largest_of_blocks(x).
Tensor encode_slot(const Tensor& x, const Tensor& largest, DType code, int64_t first_element = 0);
/// Returns the float32 values of codes.
Tensor decode_slot(const Tensor& codes, const Tensor& largest);

/// Inputs: x, the largest magnitudes. Output: codes.
class EncodeSlot final : public OperationBase<EncodeSlot> {
 public:
  EncodeSlot(const Tensor& x, const Tensor& largest, DType code, RandomSource source)
      : OperationBase({x, largest}, {{x.shape(), code}}), source(std::move(source)) {}
  std::string_view name() const override { return "encode_slot"; }
  std::string attributes() const override;
  Tensors gradient(const Tensors& dy) const override;
  bool is_groupable() const override { return true; }

  RandomSource source;
};

/// Inputs: codes, the largest magnitudes. Output: float32.
class DecodeSlot final : public OperationBase<DecodeSlot> {
 public:
  DecodeSlot(const Tensor& codes, const Tensor& largest)
      : OperationBase({codes, largest}, {{codes.shape(), DType::kFloat32}}) {}
  std::string_view name() const override { return "decode_slot"; }
  Tensors gradient(const Tensors& dy) const override;
  bool is_groupable() const override { return true; }
};

}  // namespace mtf
