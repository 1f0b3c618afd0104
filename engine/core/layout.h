// Layouts: the part of a tensor that each mesh position holds.
//
// The user writes `LayoutRules` ("batch:rows;hidden:cols"). A `Layout` is what follows from them for one
// tensor on one mesh: along each mesh dimension the tensor is replicated, split along one of its dimensions,
// a partial result, or only at one coordinate.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/shared_list.h"
#include "engine/core/mesh.h"
#include "engine/core/shape.h"

namespace mtf {

/// It stands in names that split_apart() (engine/graph/sharding_rule.h) makes and in no others: Graph refuses variables and
/// inputs with it.
inline constexpr char kApart = '\\';
/// True for a dimension that layers and operations add for their own use: its name begins with `_` or has kApart. No layout
/// rule may name it.
inline bool is_internal(std::string_view dimension) {
  return dimension.starts_with('_') || dimension.find(kApart) != std::string_view::npos;
}

/// How the parts of a partial value are combined.
enum class Reduction { kSum, kMax, kMin };

/// A rule that splits tensor dimension `dimension` over `mesh_dimensions`, outermost first.
struct LayoutRule {
  std::string dimension;
  std::vector<std::string> mesh_dimensions;
  Mark mark;  ///< where the rule stands in the configuration
};

class LayoutRules {
 public:
  LayoutRules() = default;
  explicit LayoutRules(std::vector<LayoutRule> rules) : rules_(std::move(rules)) {}
  /// Parses "batch:rows;hidden:cols". A dimension that occurs twice has two rules, which the layout check
  /// reports.
  static LayoutRules parse(std::string_view text);

  const std::vector<LayoutRule>& rules() const { return rules_; }
  bool empty() const { return rules_.empty(); }
  const LayoutRule* find(std::string_view dimension) const;
  /// Returns the rules for all other dimensions.
  LayoutRules without(std::string_view dimension) const;
  /// Returns these rules and those of `more`, which replace the rules for the same dimensions.
  LayoutRules plus(const LayoutRules& more) const;

 private:
  std::vector<LayoutRule> rules_;
};

/// The layout of one tensor. `split[i]` lists the mesh dimensions over which tensor dimension i is split,
/// outermost first; `partial` is the set of mesh dimensions over which the tensor still has to be reduced; with `pin` only
/// the positions of a stage of a pipeline have it.
struct Layout {
  SharedList<std::vector<int>> split;
  AxisMask partial = 0;
  std::optional<Pin> pin = {};

  static Layout replicated(int rank) { return Layout{std::vector<std::vector<int>>(rank), 0, {}}; }
  /// Returns the mesh dimensions along which the positions hold different data (split or partial).
  AxisMask varies() const { return split_axes() | partial; }
  /// The copies that have this layout.
  Copies copies() const { return {varies(), pin}; }
  AxisMask split_axes() const;
  /// Returns this layout without partial sums.
  Layout reduced() const { return Layout{split, 0, pin}; }
  Layout at(std::optional<Pin> other) const { return Layout{split, partial, other}; }

  friend bool operator==(const Layout&, const Layout&) = default;
};

/// Returns the number of parts into which tensor dimension `dimension` is split.
int64_t parts(const Layout& layout, int dimension, const Mesh& mesh);
/// Returns the shape of the slice that one position holds. Each number of parts must divide its dimension;
/// the layout check ensures this.
Shape slice_shape(const Shape& shape, const Layout& layout, const Mesh& mesh);
/// Returns the global index, along each dimension, of the first element of the slice of `position`.
std::vector<int64_t> slice_begin(const Shape& shape, const Layout& layout, const Mesh& mesh,
                                 int64_t position);
/// Returns text such as "[batch=64/rows, hidden=1024] partial sum over cols".
std::string to_string(const Shape& shape, const Layout& layout, const Mesh& mesh);

}  // namespace mtf
