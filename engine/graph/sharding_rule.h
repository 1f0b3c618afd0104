// A sharding rule says how an operation runs on a mesh: which layouts its inputs must have, and which layouts
// its outputs have.
//
// The partitioner asks each operation for it (Operation::sharding_rule). It brings every input to the
// requested layout by explicit collectives and runs the operation on the slices. How a tensor is split
// follows from the layout rules and the names of its dimensions; an operation only decides about partial sums
// and about dimensions that it treats in a special way.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/layout.h"
#include "engine/core/mesh.h"

namespace mtf {

class Operation;

/// The name of a dimension that is split as `name` is, but over no mesh dimension that splits one of `others`:
/// `experts\batch`.
std::string split_apart(const std::string& name, const std::vector<std::string>& others);

/// Layout rules resolved on a mesh: the mesh dimensions over which each tensor dimension is split.
class LayoutMap {
 public:
  LayoutMap(const Mesh& mesh, const LayoutRules& rules);

  const Mesh& mesh() const { return *mesh_; }
  /// Returns the mesh dimensions over which tensor dimension `name` is split, outermost first; empty: not
  /// split. A name made by split_apart() is split over those that are left.
  std::vector<int> axes(const std::string& name) const;
  /// Returns the layout of a tensor of this shape by the rules; meaningful once the layout check has passed.
  Layout of(const Shape& shape) const;
  /// Returns the number of slices into which tensor dimension `name` is split.
  int64_t parts(const std::string& name) const;
  bool splits(const std::string& name) const { return !axes(name).empty(); }

 private:
  std::vector<int> axes_of_rule(std::string_view name) const;

  const Mesh* mesh_;
  std::vector<std::pair<std::string, std::vector<int>>> axes_;
};

struct ShardingRequest {
  const LayoutMap& rules;
  std::vector<Layout> inputs;  ///< the current layouts of the inputs
};

struct ShardingRule {
  std::vector<Layout> inputs;   ///< the layouts to which the inputs are brought
  std::vector<Layout> outputs;  ///< the layouts of the outputs; partial ones are still to be reduced
  Reduction reduction =
      Reduction::kSum;  ///< how partial outputs are reduced; maxima and minima are reduced at once
};

/// Every operand is split by the rules for its dimensions; partial inputs are reduced first.
ShardingRule shard_by_name(const Operation& operation, const ShardingRequest& request);
/// Like shard_by_name(), but passes partial sums on. It is for operations that are linear in the
/// `linear_inputs` taken together (add, negative, slice, ...). Partial sums are passed on over the mesh
/// dimensions over which all of these inputs are partial and no other input varies.
ShardingRule shard_linear(const Operation& operation, const ShardingRequest& request,
                          const std::vector<int>& linear_inputs);
/// The same for an operation that is linear in all inputs taken together.
ShardingRule shard_linear(const Operation& operation, const ShardingRequest& request);
/// Like shard_by_name(), but the output is partial over the mesh dimensions that split `reduced`, the
/// dimensions that are summed (or maximised, ...) away.
ShardingRule shard_reduction(const Operation& operation, const ShardingRequest& request, const Shape& reduced,
                             Reduction reduction);

}  // namespace mtf
