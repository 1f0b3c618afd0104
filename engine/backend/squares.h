// The sum of squares of dense elements with the same bits as the operation sum_of_squares, also where the
// elements are stored in several places (rows of a variable on several parameter servers).
//
//   std::vector<double> sums(squares_blocks(count));
//   squares_of_blocks(x, DType::kFloat32, count, sums);     // added in order: sum_of_squares(x, ...)
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/core/dtype.h"

namespace mtf {

/// The number of elements whose squares form one block sum.
inline constexpr int64_t kSquaresBlock = 512;
constexpr int64_t squares_blocks(int64_t count) { return (count + kSquaresBlock - 1) / kSquaresBlock; }

/// The sum of squares of x[0 .. count), of a floating-point type.
double sum_of_squares(const std::byte* x, DType dtype, int64_t count);
/// The sum of squares of each block of x[0 .. count). If there are two blocks or more, the elements may be
/// divided among several places at multiples of a block.
void squares_of_blocks(const std::byte* x, DType dtype, int64_t count, std::span<double> sums);

}  // namespace mtf
