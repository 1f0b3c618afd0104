// Maps a dtype to the C++ type of its elements.
#pragma once

#include <cstdint>
#include <type_traits>

#include "engine/backend/element.h"
#include "engine/base/check.h"
#include "engine/core/dtype.h"

namespace mtf {

/// Returns visit(std::type_identity<T>()) for the type T of `dtype`, which must be one of the listed types.
template <class T, class... Others, class Visit>
auto visit_type(DType dtype, const Visit& visit) {
  if (dtype == DTypeOf<T>::value) return visit(std::type_identity<T>());
  if constexpr (sizeof...(Others) > 0) {
    return visit_type<Others...>(dtype, visit);
  } else {
    MTF_CHECK(false, "nothing is compiled for {} here", name_of(dtype));
  }
}

template <class Visit>
auto visit_any_type(DType dtype, const Visit& visit) {
  return visit_type<float, BFloat16, double, int32_t, int64_t, bool>(dtype, visit);
}
template <class Visit>
auto visit_floating_type(DType dtype, const Visit& visit) {
  return visit_type<float, BFloat16, double>(dtype, visit);
}
template <class Visit>
auto visit_integer_type(DType dtype, const Visit& visit) {
  return visit_type<int32_t, int64_t>(dtype, visit);
}
/// The types of optimizer slots of a weight of type T.
template <class T, class Visit>
auto visit_slot_type(DType dtype, const Visit& visit) {
  if constexpr (std::is_same_v<Computed<T>, float>) {
    return visit_type<float, BFloat16>(dtype, visit);
  } else {
    return visit_type<T>(dtype, visit);
  }
}

}  // namespace mtf
