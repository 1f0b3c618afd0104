// A mesh: an n-dimensional array of processors with named dimensions, and sets of its dimensions.
//
//   const Mesh mesh(Shape::parse("rows:2;cols:4"));
//   mesh.coordinates(5);   // {1, 1}: row-major, the last dimension varies fastest
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/core/shape.h"

namespace mtf {

/// A set of mesh dimensions: bit i stands for mesh dimension i.
using AxisMask = uint32_t;

inline bool has_axis(AxisMask mask, int axis) { return (mask >> axis) & 1u; }
inline AxisMask axis_bit(int axis) { return AxisMask{1} << axis; }

class Mesh {
 public:
  /// One position.
  Mesh() = default;
  explicit Mesh(Shape shape);

  const Shape& shape() const { return shape_; }
  int rank() const { return shape_.rank(); }
  int64_t size() const { return shape_.size(); }
  int64_t size(int axis) const { return shape_[axis].size; }
  const std::string& name(int axis) const { return shape_[axis].name; }
  AxisMask all_axes() const { return (AxisMask{1} << rank()) - 1; }

  /// Number of distinct coordinates along the dimensions in `mask`: the product of their sizes.
  int64_t size_of(AxisMask mask) const;
  /// Coordinates of a position, one for each mesh dimension.
  std::vector<int64_t> coordinates(int64_t position) const;
  /// Row-major index of `position` among the coordinates along `mask` only.
  int64_t project(int64_t position, AxisMask mask) const;
  /// The first position whose coordinates along `mask` have row-major index `index` (0 along all other
  /// dimensions).
  int64_t first_position(int64_t index, AxisMask mask) const;
  /// "rows, cols": the names of the dimensions in `mask`.
  std::string names(AxisMask mask) const;
  /// "rows=2 cols=4".
  std::string to_string() const;

 private:
  Shape shape_;
};

}  // namespace mtf
