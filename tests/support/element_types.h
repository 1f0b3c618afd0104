// Maps dtypes to C++ types and converts elements from and to double, for tests.
#pragma once

#include <cstdint>
#include <type_traits>

#include "engine/core/dtype.h"

namespace mtf::testing {

/// Calls visit(T{}) with the C++ type T of `dtype`.
template <class Visit>
void with_type(DType dtype, Visit visit) {
  switch (dtype) {
    case DType::kFloat32:
      return visit(float{});
    case DType::kBFloat16:
      return visit(BFloat16{});
    case DType::kFloat64:
      return visit(double{});
    case DType::kInt32:
      return visit(int32_t{});
    case DType::kInt64:
      return visit(int64_t{});
    case DType::kBool:
      return visit(bool{});
    case DType::kInt8:
      return visit(int8_t{});
    case DType::kUInt8:
      return visit(uint8_t{});
  }
}

template <class T>
double widen(T value) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    return static_cast<float>(value);
  } else {
    return static_cast<double>(value);
  }
}

template <class T>
T narrow(double value) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    return BFloat16(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

}  // namespace mtf::testing
