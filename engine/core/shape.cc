#include "engine/core/shape.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/base/error.h"
#include "engine/base/parse_number.h"

namespace mtf {

Shape::Shape(std::initializer_list<Dimension> dimensions) : Shape(std::vector<Dimension>(dimensions)) {}

Shape::Shape(std::vector<Dimension> dimensions) : dimensions_(std::move(dimensions)) {
  for (size_t i = 0; i < dimensions_.size(); ++i) {
    if (dimensions_[i].size < 1) {
      throw Error(ErrorKind::kConfig,
                  fmt::format("dimension `{}` has size {}", dimensions_[i].name, dimensions_[i].size),
                  "sizes are at least 1");
    }
    for (size_t j = 0; j < i; ++j) {
      if (dimensions_[i].name == dimensions_[j].name) {
        throw Error(ErrorKind::kConfig,
                    fmt::format("dimension `{}` occurs twice in {}", dimensions_[i].name, to_string()),
                    "give one of them another name");
      }
    }
  }
}

std::vector<std::pair<std::string, std::string>> parse_pairs(std::string_view text) {
  constexpr std::string_view kSeparators = " ,.;\t\n";
  std::vector<std::pair<std::string, std::string>> pairs;
  for (size_t begin = text.find_first_not_of(kSeparators); begin != std::string_view::npos;) {
    const size_t end = std::min(text.find_first_of(kSeparators, begin), text.size());
    const std::string_view pair = text.substr(begin, end - begin);
    const size_t colon = pair.find(':');
    if (colon == std::string_view::npos || colon == 0 || colon + 1 == pair.size() ||
        pair.find(':', colon + 1) != std::string_view::npos) {
      throw Error(ErrorKind::kConfig, fmt::format("`{}` in \"{}\" is not a pair name:value", pair, text),
                  "write for example \"rows:2;cols:4\"");
    }
    pairs.emplace_back(pair.substr(0, colon), pair.substr(colon + 1));
    begin = text.find_first_not_of(kSeparators, end);
  }
  return pairs;
}

Shape Shape::parse(std::string_view text) {
  std::vector<Dimension> dimensions;
  for (const auto& [name, value] : parse_pairs(text)) {
    const auto size = parse_number<int64_t>(value);
    if (!size) {
      throw Error(ErrorKind::kConfig,
                  fmt::format("size `{}` of `{}` in \"{}\" is not a number", value, name, text),
                  "sizes are whole numbers of at least 1");
    }
    dimensions.push_back({name, *size});
  }
  return Shape(std::move(dimensions));
}

int64_t Shape::size() const {
  int64_t product = 1;
  for (const Dimension& d : dimensions_) product *= d.size;
  return product;
}

std::vector<int64_t> Shape::sizes() const {
  std::vector<int64_t> sizes;
  for (const Dimension& d : dimensions_) sizes.push_back(d.size);
  return sizes;
}

std::vector<std::string> Shape::names() const {
  std::vector<std::string> names;
  for (const Dimension& d : dimensions_) names.push_back(d.name);
  return names;
}

std::optional<int> Shape::find(std::string_view name) const {
  for (int i = 0; i < rank(); ++i) {
    if (dimensions_[i].name == name) return i;
  }
  return std::nullopt;
}

bool Shape::contains(const Dimension& dimension) const {
  return std::find(begin(), end(), dimension) != end();
}

bool Shape::contains_all(const Shape& other) const {
  return std::all_of(other.begin(), other.end(), [this](const Dimension& d) { return contains(d); });
}

const Dimension& Shape::dimension(std::string_view name) const {
  if (const auto axis = find(name)) return dimensions_[*axis];
  throw Error(ErrorKind::kConfig, fmt::format("there is no dimension `{}` in {}", name, to_string()));
}

Shape Shape::renamed(std::string_view from, std::string_view to) const {
  std::vector<Dimension> dimensions = dimensions_.items();
  dimension(from);
  for (Dimension& d : dimensions) {
    if (d.name == from) d.name = to;
  }
  return Shape(std::move(dimensions));
}

Shape Shape::resized(std::string_view name, int64_t size) const {
  std::vector<Dimension> dimensions = dimensions_.items();
  dimension(name);
  for (Dimension& d : dimensions) {
    if (d.name == name) d.size = size;
  }
  return Shape(std::move(dimensions));
}

std::vector<int64_t> Shape::cumulative_products() const {
  std::vector<int64_t> result(dimensions_.size());
  int64_t product = 1;
  for (int i = 0; i < rank(); ++i) {
    result[i] = product;
    product *= dimensions_[i].size;
  }
  return result;
}

std::vector<int64_t> Shape::strides() const {
  std::vector<int64_t> result(dimensions_.size());
  int64_t product = 1;
  for (int i = rank() - 1; i >= 0; --i) {
    result[i] = product;
    product *= dimensions_[i].size;
  }
  return result;
}

std::string Shape::to_string() const {
  std::string text = "[";
  for (const Dimension& d : dimensions_) {
    if (text.size() > 1) text += ", ";
    text += fmt::format("{}={}", d.name, d.size);
  }
  return text + "]";
}

Shape operator+(const Shape& a, const Shape& b) {
  std::vector<Dimension> dimensions = a.dimensions();
  for (const Dimension& d : b) {
    if (!a.contains(d)) dimensions.push_back(d);
  }
  return Shape(std::move(dimensions));
}

Shape operator+(const Shape& a, const Dimension& b) { return a + Shape{b}; }

Shape operator-(const Shape& a, const Shape& b) {
  std::vector<Dimension> dimensions;
  for (const Dimension& d : a) {
    if (!b.contains(d)) dimensions.push_back(d);
  }
  return Shape(std::move(dimensions));
}

Shape operator-(const Shape& a, const Dimension& b) {
  if (!a.contains(b)) {
    throw Error(ErrorKind::kConfig,
                fmt::format("there is no dimension `{}` of size {} in {}", b.name, b.size, a.to_string()));
  }
  return a - Shape{b};
}

Shape without(const Shape& shape, std::string_view dimension) {
  return shape.contains(dimension) ? shape - shape.dimension(dimension) : shape;
}

bool same_dimensions(const Shape& a, const Shape& b) { return a.rank() == b.rank() && a.contains_all(b); }

int64_t bytes_of(const Shape& shape, DType dtype) {
  return shape.size() * static_cast<int64_t>(size_of(dtype));
}

std::optional<int64_t> checked_bytes_of(std::span<const int64_t> sizes, DType dtype) {
  auto bytes = static_cast<int64_t>(size_of(dtype));
  for (const int64_t size : sizes) {
    if (__builtin_mul_overflow(bytes, size, &bytes)) return std::nullopt;
  }
  return bytes;
}

}  // namespace mtf
