#include "trainer/programs/compare/tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>

#include "engine/base/check.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/safetensors/safetensors.h"
#include "trainer/programs/compare/difference_text.h"

namespace mtf {
namespace {

struct TensorInfo {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<int64_t> sizes;
  std::vector<std::string> dimensions;  ///< names of the dimensions; empty if there are none

  std::string to_string() const;
};

/// Returns "[io=16, hidden=32]", or "[16, 32]" without names.
std::string place_text(const TensorInfo& tensor, std::span<const int64_t> numbers) {
  std::vector<std::string> parts;
  for (size_t axis = 0; axis < numbers.size(); ++axis) {
    parts.push_back(tensor.dimensions.empty() ? std::to_string(numbers[axis])
                                              : fmt::format("{}={}", tensor.dimensions[axis], numbers[axis]));
  }
  return fmt::format("[{}]", fmt::join(parts, ", "));
}

std::string TensorInfo::to_string() const {
  return fmt::format("{} {}", name_of(dtype), place_text(*this, sizes));
}

/// True if dtypes and shapes are equal; names of dimensions are compared if both have them.
bool same_form(const TensorInfo& a, const TensorInfo& b) {
  const bool named = !a.dimensions.empty() && !b.dimensions.empty();
  return a.dtype == b.dtype && a.sizes == b.sizes && (!named || a.dimensions == b.dimensions);
}

/// The tensors of a checkpoint or of a safetensors file.
class TensorSource {
 public:
  explicit TensorSource(const std::string& path) {
    if (std::filesystem::is_directory(path)) {
      checkpoint_.emplace(path);
      for (const CheckpointVariable& variable : checkpoint_->manifest().variables)
        tensors_.push_back({variable.name, variable.dtype, variable.shape.sizes(), variable.shape.names()});
    } else {
      file_.emplace(path);
      for (const StoredTensor& stored : file_->tensors())
        tensors_.push_back({stored.name, stored.dtype, stored.shape, stored.dimensions});
    }
  }

  const std::vector<TensorInfo>& tensors() const { return tensors_; }

  const TensorInfo* find(const std::string& name) const {
    const auto found =
        std::find_if(tensors_.begin(), tensors_.end(), [&](const TensorInfo& t) { return t.name == name; });
    return found == tensors_.end() ? nullptr : &*found;
  }

  /// Returns the elements, a view of `buffer` or of the mapped file.
  std::span<const std::byte> read(const TensorInfo& tensor, std::vector<std::byte>& buffer) {
    if (file_) return file_->at(tensor.name).data;
    int64_t elements = 1;
    for (const int64_t size : tensor.sizes) elements *= size;
    buffer.resize(static_cast<size_t>(elements) * size_of(tensor.dtype));
    checkpoint_->read(tensor.name, std::vector<int64_t>(tensor.sizes.size(), 0), tensor.sizes, buffer.data());
    return buffer;
  }

 private:
  std::optional<CheckpointReader> checkpoint_;
  std::optional<SafetensorsFile> file_;
  std::vector<TensorInfo> tensors_;
};

/// The elements of a tensor, which need not be aligned.
template <class T>
class Elements {
 public:
  explicit Elements(std::span<const std::byte> bytes) : bytes_(bytes) {}
  size_t size() const { return bytes_.size() / sizeof(T); }
  T raw(size_t i) const {
    T value;
    std::memcpy(&value, bytes_.data() + i * sizeof(T), sizeof(T));
    return value;
  }
  double operator[](size_t i) const {
    if constexpr (std::is_same_v<T, BFloat16>) {
      return static_cast<float>(raw(i));
    } else {
      return static_cast<double>(raw(i));
    }
  }
  bool same_bits(size_t i, const Elements& other) const {
    return std::memcmp(bytes_.data() + i * sizeof(T), other.bytes_.data() + i * sizeof(T), sizeof(T)) == 0;
  }

 private:
  std::span<const std::byte> bytes_;
};

/// Returns the root mean square of the finite elements of both tensors.
template <class T>
double root_mean_square(const Elements<T>& a, const Elements<T>& b) {
  double sum = 0;
  size_t count = 0;
  for (const Elements<T>* elements : {&a, &b}) {
    for (size_t i = 0; i < elements->size(); ++i) {
      const double value = (*elements)[i];
      if (!std::isfinite(value)) continue;
      sum += value * value;
      ++count;
    }
  }
  return count == 0 || !std::isfinite(sum) ? 0 : std::sqrt(sum / static_cast<double>(count));
}

std::vector<int64_t> coordinates(size_t index, const std::vector<int64_t>& sizes) {
  std::vector<int64_t> result(sizes.size());
  auto rest = static_cast<int64_t>(index);
  for (size_t axis = sizes.size(); axis-- > 0;) {
    result[axis] = rest % sizes[axis];
    rest /= sizes[axis];
  }
  return result;
}

template <class T>
TensorDifference compare_elements(const TensorInfo& tensor, std::span<const std::byte> bytes_a,
                                  std::span<const std::byte> bytes_b, double tolerance) {
  const Elements<T> a(bytes_a), b(bytes_b);
  TensorDifference result;
  result.name = tensor.name;
  result.elements = static_cast<int64_t>(a.size());
  const double scale = root_mean_square(a, b);
  const bool exact = std::is_integral_v<T> || tolerance == 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double x = a[i], y = b[i];
    if (a.same_bits(i, b) || (std::isnan(x) && std::isnan(y))) continue;
    const double relative = relative_difference(x, y, scale);
    const double absolute = std::isfinite(relative) ? std::abs(x - y) : relative;
    result.largest_relative = std::max(result.largest_relative, relative);
    result.largest_absolute = std::max(result.largest_absolute, absolute);
    if (!exact && relative <= tolerance) continue;
    if (result.differing++ > 0) continue;
    if (!tensor.sizes.empty()) result.first_place = place_text(tensor, coordinates(i, tensor.sizes));
    if constexpr (std::is_integral_v<T>) {
      result.first_values = fmt::format("{} against {}", a.raw(i), b.raw(i));
    } else {
      result.first_values = against(x, y);
    }
    result.first_relative = relative;
  }
  return result;
}

TensorDifference compare_elements(const TensorInfo& tensor, std::span<const std::byte> a,
                                  std::span<const std::byte> b, double tolerance) {
  switch (tensor.dtype) {
    case DType::kFloat32:
      return compare_elements<float>(tensor, a, b, tolerance);
    case DType::kBFloat16:
      return compare_elements<BFloat16>(tensor, a, b, tolerance);
    case DType::kFloat64:
      return compare_elements<double>(tensor, a, b, tolerance);
    case DType::kInt32:
      return compare_elements<int32_t>(tensor, a, b, tolerance);
    case DType::kInt64:
      return compare_elements<int64_t>(tensor, a, b, tolerance);
    case DType::kInt8: {  // sign and magnitude (engine/ops/slot_code.h)
      const auto numbers = [](std::span<const std::byte> codes) {
        std::vector<int32_t> result;
        for (const std::byte code : codes) {
          const auto magnitude = static_cast<int32_t>(code & std::byte{0x7f});
          result.push_back((code & std::byte{0x80}) == std::byte{0} ? magnitude : -magnitude);
        }
        return result;
      };
      const std::vector<int32_t> numbers_a = numbers(a), numbers_b = numbers(b);
      return compare_elements<int32_t>(tensor, std::as_bytes(std::span(numbers_a)),
                                       std::as_bytes(std::span(numbers_b)), tolerance);
    }
    case DType::kBool:
    case DType::kUInt8:
      return compare_elements<uint8_t>(tensor, a, b, tolerance);
  }
  MTF_CHECK(false, "dtype {}", static_cast<int>(tensor.dtype));
}

}  // namespace

TensorsComparison compare_tensors(const std::string& path_a, const std::string& path_b, double tolerance) {
  TensorSource a(path_a), b(path_b);
  TensorsComparison result;
  std::vector<std::byte> buffer_a, buffer_b;
  for (const TensorInfo& tensor : a.tensors()) {
    const TensorInfo* other = b.find(tensor.name);
    if (!other) {
      result.only_a.push_back(tensor.name);
    } else if (!same_form(tensor, *other)) {
      result.mismatches.push_back({tensor.name, tensor.to_string(), other->to_string()});
    } else {
      ++result.compared;
      const std::span<const std::byte> bytes_a = a.read(tensor, buffer_a), bytes_b = b.read(*other, buffer_b);
      if (bytes_a.empty() || std::memcmp(bytes_a.data(), bytes_b.data(), bytes_a.size()) == 0) continue;
      const TensorInfo& named = tensor.dimensions.empty() ? *other : tensor;
      TensorDifference difference = compare_elements(named, bytes_a, bytes_b, tolerance);
      if (difference.largest_relative > result.largest_relative) {
        result.largest_relative = difference.largest_relative;
        result.largest_in = tensor.name;
      }
      if (difference.differing > 0) result.differences.push_back(std::move(difference));
    }
  }
  for (const TensorInfo& tensor : b.tensors()) {
    if (!a.find(tensor.name)) result.only_b.push_back(tensor.name);
  }
  return result;
}

}  // namespace mtf
