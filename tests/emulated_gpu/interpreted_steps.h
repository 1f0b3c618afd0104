// The steps of fusions of elementwise operations as functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "engine/backend/cuda/fusion/fusion.h"

namespace mtf::cuda::emulator {

/// An element of any type.
struct Slot {
  template <class T>
  T as() const {
    T value;
    std::memcpy(&value, bytes, sizeof(T));
    return value;
  }
  template <class T>
  void set(T value) {
    std::memcpy(bytes, &value, sizeof(T));
  }
  std::byte bytes[8];
};

/// What a step is made from besides its operands.
struct Given {
  double parameter = 0;
  uint32_t bits = 0, threshold = 0;
};

using Operands = std::vector<int>;
/// `values`: all of the fusion; `operands`: their numbers.
using Evaluate = Slot (*)(const Operands& operands, const Slot* values, const Given& given);

/// `operand`: the type of the first, or of the result where there is none. Aborts where there is no formula.
Evaluate function_of(const Fusion::Step& step, DType operand);

}  // namespace mtf::cuda::emulator
