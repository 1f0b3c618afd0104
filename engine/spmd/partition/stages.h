// Finds the chunk of a pipeline in which each operation of a graph runs and each variable lies.
//
// An operation of a unit (Graph::unit), and its gradient, runs in the chunk of that unit. Any other runs where its operands
// are: in the forward pass in the last of their chunks, sums of gradients in the first. Where no chunk has an operand, as for
// masks that follow from the inputs, all positions compute it. A variable lies in the chunk that reads or makes it first; other
// chunks that read it get it by a collective.
#pragma once

#include <unordered_map>

#include "engine/graph/graph.h"
#include "engine/spmd/partition/liveness.h"
#include "engine/spmd/partition/partition.h"

namespace mtf {

class Stages {
 public:
  /// Without a pipeline nothing has a chunk. What is found is added to Pipeline::placed.
  Stages(const Graph& graph, const Layouts& layouts, const OperationSet& live);

  static constexpr int kNone = -1;
  /// The chunk of an operation; kNone: it runs on all positions.
  int of(const Operation& operation) const {
    const auto found = operations_.find(&operation);
    return found == operations_.end() ? kNone : found->second;
  }
  int of(const Tensor& tensor) const;
  int of(const Variable& variable) const {
    if (placed_ == nullptr) return kNone;
    const auto found = placed_->variables.find(variable.name);
    return found == placed_->variables.end() ? kNone : found->second;
  }

 private:
  void block(const Block& operations, const OperationSet& live);
  int find(const Operation& operation) const;
  bool reads_new_variable(const Operation& operation) const;

  const Graph& graph_;
  PlacedChunks* const placed_;  ///< null: no pipeline
  std::unordered_map<const Operation*, int> operations_;
  int latest_ = 0;  ///< the chunk of the unit that the forward pass has come to
};

}  // namespace mtf
