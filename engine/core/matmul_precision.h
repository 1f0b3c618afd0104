// How contractions multiply. Sums of products of float32 or bfloat16 are float32 in any case.
#pragma once

#include <cstdint>
#include <string_view>

#include "engine/core/dtype.h"

namespace mtf {

/// What may be rounded before it is multiplied.
enum class MatmulPrecision : uint8_t {
  kFull,      ///< nothing
  kTf32,      ///< factors of float32 to 10 bits of mantissa, on devices that multiply such numbers faster
  kBFloat16,  ///< factors of float32 to bfloat16; the CPU also takes denormal factors and sums as zero
};

/// "", "tf32" or "bf16": the attribute of a contraction in the text of programs.
constexpr std::string_view short_name(MatmulPrecision precision) {
  switch (precision) {
    case MatmulPrecision::kTf32:
      return "tf32";
    case MatmulPrecision::kBFloat16:
      return "bf16";
    case MatmulPrecision::kFull:
      break;
  }
  return "";
}

/// The precision of factors of this type, where `asked` is asked for: bfloat16 is never rounded to tf32, and other types
/// than these two are not rounded at all.
constexpr MatmulPrecision precision_for(DType factors, MatmulPrecision asked) {
  if (factors == DType::kFloat32 || (factors == DType::kBFloat16 && asked == MatmulPrecision::kBFloat16))
    return asked;
  return MatmulPrecision::kFull;
}

}  // namespace mtf
