// How an operation is carried out on a mesh: the state its inputs must be in, and the state its outputs come
// out in.
//
// The partitioner asks each operation (Operation::sharding_rule). It brings every input to the layout asked for (with
// explicit collectives) and runs the operation on the slices. What a tensor's dimensions are split over
// follows from the layout rules and the names of its dimensions alone; an operation decides only about
// partial sums and about dimensions that it treats in a way of its own.
#pragma once

#include <vector>

#include "engine/core/layout.h"
#include "engine/core/mesh.h"

namespace mtf {

class Operation;

/// Layout rules resolved on a mesh: which mesh dimensions split a tensor dimension of a given name.
class LayoutMap {
 public:
  LayoutMap(const Mesh& mesh, const LayoutRules& rules);

  const Mesh& mesh() const { return *mesh_; }
  /// Mesh dimensions that split tensor dimension `name`, outermost first; empty: not split.
  const std::vector<int>& axes(const std::string& name) const;
  /// The layout that the rules give to a tensor of this shape. Meaningful once the layout check has passed.
  Layout of(const Shape& shape) const;
  /// Slices into which the rules cut tensor dimension `name`.
  int64_t parts(const std::string& name) const;
  bool splits(const std::string& name) const { return !axes(name).empty(); }

 private:
  const Mesh* mesh_;
  std::vector<std::pair<std::string, std::vector<int>>> axes_;
};

struct ShardingRequest {
  const LayoutMap& rules;
  std::vector<Layout> inputs;  ///< the states that the inputs are in
};

struct ShardingRule {
  std::vector<Layout> inputs;   ///< what each input has to be brought to
  std::vector<Layout> outputs;  ///< what comes out; partial: still to be reduced
  Reduction reduction =
      Reduction::kSum;  ///< how partial outputs are reduced; maxima and minima are reduced at once
};

/// Every operand is split as the rules say for its dimensions; partial inputs are reduced first.
ShardingRule shard_by_name(const Operation& operation, const ShardingRequest& request);
/// As shard_by_name, but a partial sum passes through: for operations that are linear in each of
/// `linear_inputs` taken together (add, negative, slice, ...). It passes over those mesh dimensions over
/// which all of these inputs are partial and no other input varies.
ShardingRule shard_linear(const Operation& operation, const ShardingRequest& request,
                          const std::vector<int>& linear_inputs);
/// As shard_by_name, with the output left partial over the mesh dimensions that split `reduced` (dimensions
/// that are summed, maximised ... away).
ShardingRule shard_reduction(const Operation& operation, const ShardingRequest& request, const Shape& reduced,
                             Reduction reduction);

}  // namespace mtf
