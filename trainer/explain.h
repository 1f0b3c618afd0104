// run.mode=explain: what a run would do on its mesh, printed without running or allocating any of it.
#pragma once

#include <string>

#include "trainer/session.h"

namespace mtf {

/// Prints to standard output: variables with their slices and bytes, memory for each position, FLOPs and
/// bytes sent in a training step, the program (explain.tensors), notes on the layout.
void explain(const Session& session, Diagnostics& diagnostics);

/// Work of one position in one run of a program.
struct ProgramCost {
  double flops = 0;  ///< of contractions
  int64_t bytes_sent = 0;
  int64_t collectives = 0;
};
ProgramCost program_cost(const Program& program);

}  // namespace mtf
