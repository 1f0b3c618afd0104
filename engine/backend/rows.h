// Rows views a tensor as rows along one of its dimensions, for kernels that work on one row at a time.
//
//   const Rows rows = rows_along(x, "vocab");
//   for (int64_t i = 0; i < rows.length; ++i) sum += x[rows.offset(r) + i * rows.stride];
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/backend/kernel.h"
#include "engine/base/check.h"

namespace mtf {

struct Rows {
  int axis = 0;        ///< axis of the dimension, in declared order
  int64_t count = 1;   ///< number of rows, in row-major order of the other dimensions
  int64_t length = 1;  ///< elements of a row
  int64_t stride = 1;  ///< distance between adjacent elements of a row

  int64_t offset(int64_t row) const { return row / stride * length * stride + row % stride; }
};

inline Rows rows_along(const LocalTensor& x, const std::string& dimension) {
  const std::optional<int> axis = x.local.find(dimension);
  MTF_CHECK(axis && x.strides == x.local.strides(), "{} is not row-major or has no {}", x.local.to_string(),
            dimension);
  const int64_t length = x.local[*axis].size;
  return {*axis, x.local.size() / length, length, x.strides[*axis]};
}

}  // namespace mtf
