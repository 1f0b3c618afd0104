// Products of matrices of 8-bit codes in one thread, with exact sums.
//
//   C [rows x columns] = A [rows x depth] * B [depth x columns]
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/backend/cpu/contractions/int8_kernels.h"

namespace mtf {

/// The operands. Rows of A are dense. Codes of B are the signed ones + 128: panels of kInt8Columns columns, whose numbers
/// then divide the extents, or dense columns.
struct Int8Matrices {
  int64_t rows = 0, columns = 0, depth = 0;
  const int8_t* a = nullptr;
  const uint8_t* b = nullptr;
  bool in_panels = true;
  Int8Output output;
};

/// `scratch` must have int8_scratch_bytes() bytes, aligned to 64.
void multiply(const Int8Matrices& product, std::byte* scratch, const Int8Kernels& kernels);

/// The bytes of scratch for products of at most so many rows.
size_t int8_scratch_bytes(int64_t rows, int64_t depth, bool in_panels);

}  // namespace mtf
