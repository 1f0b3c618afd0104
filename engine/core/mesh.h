// A mesh: an n-dimensional array of processors with named dimensions. Also sets of its dimensions and of its positions.
//
//   const Mesh mesh(Shape::parse("rows:2;cols:4"));
//   mesh.coordinates(5);   // {1, 1}: row-major, the last dimension varies fastest
#pragma once

#include <bit>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/shape.h"

namespace mtf {

/// A set of mesh dimensions: bit i stands for mesh dimension i.
using AxisMask = uint32_t;

inline bool has_axis(AxisMask mask, int axis) { return (mask >> axis) & 1u; }
inline AxisMask axis_bit(int axis) { return AxisMask{1} << axis; }

/// The positions with one coordinate along one mesh dimension: a stage of a pipeline.
struct Pin {
  int axis = 0;
  int64_t coordinate = 0;

  friend auto operator<=>(const Pin&, const Pin&) = default;
};

/// The copies of a value: one for each coordinate along `axes`, on all positions or on those of `pin`, whose mesh dimension
/// is not among `axes`.
struct Copies {
  AxisMask axes = 0;
  std::optional<Pin> pin = {};

  Copies() = default;
  Copies(AxisMask axes, std::optional<Pin> pin = {}) : axes(axes), pin(pin) {}
  friend auto operator<=>(const Copies&, const Copies&) = default;
};

class Mesh {
 public:
  /// A mesh without dimensions, which has one position.
  Mesh() = default;
  explicit Mesh(Shape shape);

  const Shape& shape() const { return shape_; }
  int rank() const { return shape_.rank(); }
  int64_t size() const { return shape_.size(); }
  int64_t size(int axis) const { return shape_[axis].size; }
  const std::string& name(int axis) const { return shape_[axis].name; }
  AxisMask all_axes() const { return (AxisMask{1} << rank()) - 1; }

  /// Returns the number of distinct coordinates along the dimensions in `mask`: the product of their sizes.
  int64_t size_of(AxisMask mask) const;
  /// Returns the coordinate of a position along each mesh dimension.
  std::vector<int64_t> coordinates(int64_t position) const;
  /// Returns the row-major index of `position` among the coordinates along `mask`.
  int64_t project(int64_t position, AxisMask mask) const;
  /// Returns the first position whose coordinates along `mask` have the row-major index `index`; its other
  /// coordinates are 0.
  int64_t first_position(int64_t index, AxisMask mask) const;
  /// The same among the positions of `copies`.
  int64_t first_position(int64_t index, const Copies& copies) const;
  bool is_at(int64_t position, const Pin& pin) const;
  /// `copies`, or with `replicate` (run.check_replicas) a copy on each position that has one.
  Copies stored(const Copies& copies, bool replicate) const;
  /// Returns the names of the dimensions in `mask`: "rows, cols".
  std::string names(AxisMask mask) const;
  /// Returns text such as "rows=2 cols=4", or "one position".
  std::string to_string() const;

 private:
  Shape shape_;
};

}  // namespace mtf
