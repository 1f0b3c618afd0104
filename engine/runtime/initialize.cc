#include "engine/runtime/initialize.h"

#include "engine/core/random.h"

namespace mtf {
namespace {

double initial_value(const Initializer& initializer, PhiloxKey key, int64_t element) {
  constexpr RandomStream stream = RandomStream::kInitialValues;
  switch (initializer.kind) {
    case Initializer::Kind::kConstant:
      return initializer.value;
    case Initializer::Kind::kUniform:
      return uniform(key, stream, 0, element, -initializer.value, initializer.value);
    case Initializer::Kind::kNormal:
      return normal(key, stream, 0, element, 0, initializer.value);
    case Initializer::Kind::kTruncatedNormal:
      return truncated_normal(key, stream, 0, element, 0, initializer.value);
  }
  return 0;
}

template <class T, class Value>
void fill(const Variable& variable, const Shape& slice, const std::vector<int64_t>& begin, T* data,
          const Value& value) {
  const std::vector<int64_t> strides = variable.shape.strides();
  for (int64_t i = 0; i < slice.size(); ++i) {
    int64_t rest = i, element = 0;
    for (int axis = slice.rank() - 1; axis >= 0; --axis) {
      element += (begin[axis] + rest % slice[axis].size) * strides[axis];
      rest /= slice[axis].size;
    }
    data[i] = value(element);
  }
}

}  // namespace

void fill_initial_values(const Variable& variable, uint64_t seed, const Shape& slice,
                         const std::vector<int64_t>& begin, std::byte* data) {
  const PhiloxKey key = random_key(variable.name, seed);
  const auto value = [&](int64_t element) { return initial_value(variable.initializer, key, element); };
  switch (variable.dtype) {
    case DType::kFloat32:
      return fill(variable, slice, begin, reinterpret_cast<float*>(data),
                  [&](int64_t i) { return static_cast<float>(value(i)); });
    case DType::kBFloat16:
      return fill(variable, slice, begin, reinterpret_cast<BFloat16*>(data),
                  [&](int64_t i) { return BFloat16(static_cast<float>(value(i))); });
    case DType::kFloat64:
      return fill(variable, slice, begin, reinterpret_cast<double*>(data), value);
    case DType::kInt32:
      return fill(variable, slice, begin, reinterpret_cast<int32_t*>(data),
                  [&](int64_t i) { return static_cast<int32_t>(value(i)); });
    case DType::kInt64:
      return fill(variable, slice, begin, reinterpret_cast<int64_t*>(data),
                  [&](int64_t i) { return static_cast<int64_t>(value(i)); });
    case DType::kBool:
      return fill(variable, slice, begin, reinterpret_cast<bool*>(data),
                  [&](int64_t i) { return value(i) != 0; });
    case DType::kInt8:
      return fill(variable, slice, begin, reinterpret_cast<int8_t*>(data),
                  [&](int64_t i) { return static_cast<int8_t>(value(i)); });
    case DType::kUInt8:
      return fill(variable, slice, begin, reinterpret_cast<uint8_t*>(data),
                  [&](int64_t i) { return static_cast<uint8_t>(value(i)); });
  }
}

}  // namespace mtf
