#include "engine/runtime/scalar_value.h"

#include <cstdint>
#include <cstring>

#include "engine/base/check.h"

namespace mtf {
namespace {

template <class T>
T load(const std::byte* data) {
  T value;
  std::memcpy(&value, data, sizeof(T));
  return value;
}

template <class T>
std::array<std::byte, 8> stored(double value) {
  std::array<std::byte, 8> bytes{};
  const T narrow = static_cast<T>(value);
  std::memcpy(bytes.data(), &narrow, sizeof(T));
  return bytes;
}

}  // namespace

double scalar_value(DType dtype, const std::byte* data) {
  switch (dtype) {
    case DType::kFloat32:
      return load<float>(data);
    case DType::kBFloat16:
      return static_cast<float>(load<BFloat16>(data));
    case DType::kFloat64:
      return load<double>(data);
    case DType::kInt32:
      return load<int32_t>(data);
    case DType::kInt64:
      return static_cast<double>(load<int64_t>(data));
    case DType::kBool:
      return load<bool>(data) ? 1 : 0;
    case DType::kInt8:
      return load<int8_t>(data);
    case DType::kUInt8:
      return load<uint8_t>(data);
  }
  MTF_CHECK(false, "unknown dtype");
}

std::array<std::byte, 8> scalar_bytes(DType dtype, double value) {
  switch (dtype) {
    case DType::kFloat32:
      return stored<float>(value);
    case DType::kFloat64:
      return stored<double>(value);
    case DType::kInt32:
      return stored<int32_t>(value);
    case DType::kInt64:
      return stored<int64_t>(value);
    case DType::kBool:
      return stored<bool>(value != 0);
    default:
      MTF_CHECK(false, "a scalar input of {}", name_of(dtype));
  }
}

}  // namespace mtf
