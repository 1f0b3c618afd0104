// The functions of GemmKernels and PairKernels for elements of type T, float32 or bfloat16.
#pragma once

#include <type_traits>

#include "engine/backend/cpu/contractions/gemm_kernels.h"

namespace mtf {

template <class T, class Kernels>
auto pack_of(const Kernels& kernels) {
  if constexpr (std::is_same_v<T, float>) {
    return kernels.pack;
  } else {
    return kernels.pack_bf16;
  }
}

template <class T, class Kernels>
auto pack_panels_of(const Kernels& kernels) {
  if constexpr (std::is_same_v<T, float>) {
    return kernels.pack_panels;
  } else {
    return kernels.pack_panels_bf16;
  }
}

template <class T>
auto pack_rows_of(const PairKernels& kernels) {
  if constexpr (std::is_same_v<T, float>) {
    return kernels.pack_rows;
  } else {
    return kernels.pack_rows_bf16;
  }
}

template <class T>
auto pack_columns_of(const PairKernels& kernels) {
  if constexpr (std::is_same_v<T, float>) {
    return kernels.pack_columns;
  } else {
    return kernels.pack_columns_bf16;
  }
}

/// By rows - 1.
template <class T, class Kernels>
const auto& thin_of(const Kernels& kernels) {
  if constexpr (std::is_same_v<T, float>) {
    return kernels.thin;
  } else {
    return kernels.thin_bf16;
  }
}

}  // namespace mtf
