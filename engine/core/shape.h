// Named dimensions and shapes. Operations match dimensions by name, never by position; the declared order of
// a shape only determines files, the element index of random numbers, and printing.
//
//   const Dimension batch{"batch", 64}, hidden{"hidden", 1024};
//   Shape shape{batch, hidden};             // [batch=64, hidden=1024]
//   shape - hidden + Dimension{"out", 10};  // [batch=64, out=10]
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/shared_list.h"
#include "engine/core/dtype.h"

namespace mtf {

struct Dimension {
  std::string name;
  int64_t size = 0;

  friend bool operator==(const Dimension&, const Dimension&) = default;
};

/// An ordered list of dimensions with distinct names and sizes of at least 1. The constructors throw Error
/// (kConfig) otherwise. Copies share it.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<Dimension> dimensions);
  Shape(std::vector<Dimension> dimensions);
  /// Parses "batch:4;model:2"; the separators between pairs are space , . or ;.
  static Shape parse(std::string_view text);

  int rank() const { return static_cast<int>(dimensions_.size()); }
  const Dimension& operator[](int axis) const { return dimensions_[axis]; }
  auto begin() const { return dimensions_.begin(); }
  auto end() const { return dimensions_.end(); }
  const std::vector<Dimension>& dimensions() const { return dimensions_.items(); }
  /// Equal for shapes that share their dimensions: equal shapes may have different ones.
  const void* identity() const { return dimensions_.identity(); }
  /// Returns the product of all sizes; 1 for a scalar.
  int64_t size() const;
  std::vector<int64_t> sizes() const;
  std::vector<std::string> names() const;

  /// Returns the position of the dimension called `name`, or nothing.
  std::optional<int> find(std::string_view name) const;
  bool contains(std::string_view name) const { return find(name).has_value(); }
  bool contains(const Dimension& dimension) const;
  /// True if every dimension of `other` occurs here (same name and size), in any order.
  bool contains_all(const Shape& other) const;
  /// Returns the dimension called `name`; throws Error if there is none.
  const Dimension& dimension(std::string_view name) const;

  Shape renamed(std::string_view from, std::string_view to) const;
  Shape resized(std::string_view name, int64_t size) const;
  /// Gives the dimension at `axis` a size of at least 1.
  void set_size(int axis, int64_t size) { dimensions_.change()[static_cast<size_t>(axis)].size = size; }
  /// Returns the exclusive prefix products: element i is the product of the sizes before axis i.
  std::vector<int64_t> cumulative_products() const;
  /// Returns the row-major strides, in elements.
  std::vector<int64_t> strides() const;

  /// Returns text such as "[batch=64, hidden=1024]".
  std::string to_string() const;

  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  SharedList<Dimension> dimensions_;
};

/// Appends the dimensions of `b` that `a` lacks.
Shape operator+(const Shape& a, const Shape& b);
Shape operator+(const Shape& a, const Dimension& b);
/// Removes dimensions. Dimensions of a Shape that `a` lacks are ignored; a single Dimension that `a` lacks is
/// an error.
Shape operator-(const Shape& a, const Shape& b);
Shape operator-(const Shape& a, const Dimension& b);
/// Returns the shape without the dimension of this name, if there is one.
Shape without(const Shape& shape, std::string_view dimension);
/// True if both have the same dimensions in any order.
bool same_dimensions(const Shape& a, const Shape& b);

/// Returns the number of bytes of a dense tensor.
int64_t bytes_of(const Shape& shape, DType dtype);
/// The same for sizes from a file; nullopt if int64 cannot hold the number.
std::optional<int64_t> checked_bytes_of(std::span<const int64_t> sizes, DType dtype);

/// Splits "key:value" pairs separated by space , . or ; as in shapes, meshes and layouts. Throws Error
/// (kConfig) that quotes `text` if a pair does not have exactly one colon.
std::vector<std::pair<std::string, std::string>> parse_pairs(std::string_view text);

}  // namespace mtf
