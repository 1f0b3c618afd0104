// HostTensor is a whole tensor in host memory, row-major in declared order: the inputs and outputs of an
// executor.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/core/dtype.h"
#include "engine/core/shape.h"

namespace mtf {

struct HostTensor {
  Shape shape;
  DType dtype = DType::kFloat32;
  std::vector<std::byte> bytes;

  HostTensor() = default;
  HostTensor(const Shape& shape, DType dtype)
      : shape(shape), dtype(dtype), bytes(static_cast<size_t>(bytes_of(shape, dtype))) {}

  template <class T>
  T* data() {
    return reinterpret_cast<T*>(bytes.data());
  }
  template <class T>
  const T* data() const {
    return reinterpret_cast<const T*>(bytes.data());
  }
};

}  // namespace mtf
