#include "engine/core/dtype.h"

#include <array>

namespace mtf {
namespace {

struct Description {
  DType dtype;
  size_t size;
  std::string_view short_name;
  std::string_view name;
};

constexpr std::array<Description, 8> kDescriptions = {{
    {DType::kFloat32, 4, "f32", "float32"},
    {DType::kBFloat16, 2, "bf16", "bfloat16"},
    {DType::kFloat64, 8, "f64", "float64"},
    {DType::kInt32, 4, "i32", "int32"},
    {DType::kInt64, 8, "i64", "int64"},
    {DType::kBool, 1, "bool", "bool"},
    {DType::kInt8, 1, "i8", "int8"},
    {DType::kUInt8, 1, "u8", "uint8"},
}};

const Description& description(DType dtype) { return kDescriptions[static_cast<size_t>(dtype)]; }

}  // namespace

size_t size_of(DType dtype) { return description(dtype).size; }
std::string_view short_name(DType dtype) { return description(dtype).short_name; }
std::string_view name_of(DType dtype) { return description(dtype).name; }

std::optional<DType> parse_dtype(std::string_view name) {
  for (const Description& d : kDescriptions) {
    if (name == d.name || name == d.short_name) return d.dtype;
  }
  return std::nullopt;
}

}  // namespace mtf
