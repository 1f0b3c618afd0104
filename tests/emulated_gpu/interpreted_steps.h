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

/// The inputs of a step besides its operands.
struct Given {
  double parameter = 0;
  uint32_t bits = 0, threshold = 0;
};

using Operands = std::vector<int>;
/// Evaluates a step. `values` are all values of the fusion, `operands` the indices of the step's operands.
using Evaluate = Slot (*)(const Operands& operands, const Slot* values, const Given& given);

/// `operand` is the type of the first operand, or of the result if there is none. Aborts if there is no
/// formula.
Evaluate function_of(const Fusion::Step& step, DType operand);

}  // namespace mtf::cuda::emulator
