// Which part of a value each mesh position holds.
//
// `LayoutRules` are what the user writes ("batch:rows;hidden:cols"); `Layout` is what follows for one tensor
// on one mesh: along each mesh dimension a value is replicated, split along one of its dimensions, or a
// partial sum.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/error.h"
#include "engine/core/mesh.h"
#include "engine/core/shape.h"

namespace mtf {

/// How the parts of a partial value are combined.
enum class Reduction { kSum, kMax, kMin };

/// Tensor dimension `dimension` is split over `mesh_dimensions`, the outermost first.
struct LayoutRule {
  std::string dimension;
  std::vector<std::string> mesh_dimensions;
  Mark mark;  ///< where the rule stands in the configuration
};

class LayoutRules {
 public:
  LayoutRules() = default;
  explicit LayoutRules(std::vector<LayoutRule> rules) : rules_(std::move(rules)) {}
  /// Parses "batch:rows;hidden:cols". A name that occurs twice stays in the list twice (an error of the
  /// layout check).
  static LayoutRules parse(std::string_view text);

  const std::vector<LayoutRule>& rules() const { return rules_; }
  bool empty() const { return rules_.empty(); }
  const LayoutRule* find(std::string_view dimension) const;
  /// These rules with `more` on top: a rule of `more` replaces the one for the same dimension.
  LayoutRules plus(const LayoutRules& more) const;

 private:
  std::vector<LayoutRule> rules_;
};

/// State of one value. `split[i]` lists the mesh dimensions over which tensor dimension i is split, outermost
/// first; `partial` is the set of mesh dimensions over which the value still has to be summed.
struct Layout {
  std::vector<std::vector<int>> split;
  AxisMask partial = 0;

  static Layout replicated(int rank) { return Layout{std::vector<std::vector<int>>(rank), 0}; }
  /// Mesh dimensions along which the positions hold different data: split or partial.
  AxisMask varies() const { return split_axes() | partial; }
  AxisMask split_axes() const;
  /// The tensor dimension that `axis` splits, or nothing.
  std::optional<int> dimension_split_by(int axis) const;
  /// This layout without partial sums.
  Layout reduced() const { return Layout{split, 0}; }

  friend bool operator==(const Layout&, const Layout&) = default;
};

/// Number of parts into which tensor dimension `dimension` is cut.
int64_t parts(const Layout& layout, int dimension, const Mesh& mesh);
/// Sizes of the slice that one position holds. Every split must divide its dimension (the layout check has
/// seen to it).
Shape slice_shape(const Shape& shape, const Layout& layout, const Mesh& mesh);
/// Global index of the first element of the slice of `position` along each dimension.
std::vector<int64_t> slice_begin(const Shape& shape, const Layout& layout, const Mesh& mesh,
                                 int64_t position);
/// "[batch=64/rows, hidden=1024] partial sum over cols".
std::string to_string(const Shape& shape, const Layout& layout, const Mesh& mesh);

}  // namespace mtf
