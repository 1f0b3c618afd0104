// Finds layout rules that would save work which several positions repeat, and their costs, by trying each
// rule on the training step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/spmd/program_facts.h"
#include "trainer/session/session.h"

namespace mtf {

/// The costs of the training step with one more rule of `layout`.
struct SplitTrial {
  std::string dimension;
  /// All mesh dimensions that then split `dimension`, outermost first.
  std::vector<std::string> mesh_dimensions;
  double flops = 0;            ///< FLOPs of one position in a step
  double bytes_sent = 0;       ///< bytes that one position sends in a step
  int64_t position_bytes = 0;  ///< memory of the training step on one position
};

/// Tries the legal rules with the largest estimated savings, and returns at most `most` of those that save
/// work, the one that saves the most first.
std::vector<SplitTrial> try_splits(const Session& session, const Graph& graph, const Program& program,
                                   const ProgramFacts& facts, size_t most = 4);

}  // namespace mtf
