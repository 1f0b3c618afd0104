// Which further layout rules would save work that several positions do alike, and at what price: each rule is
// tried on the training step.
#pragma once

#include <string>
#include <vector>

#include "engine/spmd/program_facts.h"
#include "trainer/session/session.h"

namespace mtf {

/// The training step with one more rule of `layout`.
struct SplitTrial {
  std::string dimension;
  std::vector<std::string> mesh_dimensions;  ///< all that split `dimension` then, outermost first
  double flops = 0;                          ///< of one position in a step
  double bytes_sent = 0;                     ///< by one position in a step
  int64_t position_bytes = 0;                ///< memory of the training step on one position
};

/// Legal rules that take repeated work away, the one that saves the most first; at most `most`, out of the
/// candidates that promise the most.
std::vector<SplitTrial> try_splits(const Session& session, const Graph& graph, const Program& program,
                                   const ProgramFacts& facts, size_t most = 4);

}  // namespace mtf
