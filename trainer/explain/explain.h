// run.mode=explain: what a run would do on its mesh, printed without running or allocating any of it.
// explain.format=text is for people (text.h), json for programs (json.h).
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "engine/spmd/program_facts.h"
#include "trainer/explain/explained_memory.h"
#include "trainer/explain/splits.h"
#include "trainer/session/session.h"

namespace mtf {

/// Prints the explanation to standard output; of several processes the first does. Throws Error when the
/// configuration is wrong; a run that does not fit into memory is explained all the same.
void explain(const Session& session, Diagnostics& diagnostics);

/// A program of the run.
struct ExplainedProgram {
  Program program;
  ProgramFacts facts;
  int64_t batch_size = 0;
};

/// The work of one position for one layer in a training step.
struct LayerWork {
  std::string path;               ///< scope; "optimizer" for the whole update; empty: outside all layers
  int64_t parameters = 0;         ///< elements of its weights, on the whole mesh
  std::array<double, 3> flops{};  ///< of contractions, by Phase
  double bytes_sent = 0;
};

/// How the positions are spread over processes.
struct ExplainedProcesses {
  int64_t count = 1;
  int64_t positions = 1;  ///< of each
  double bytes_sent = 0;  ///< by a process to others in a training step: the mean; of many, that of the first
};

/// Everything that is said about a run. FLOPs and bytes are those of one training step.
struct Explanation {
  ExplainedProgram step;
  std::optional<ExplainedProgram> evaluation;
  ExplainedProcesses processes;
  int64_t microbatches = 1;
  std::vector<LayerWork> layers;
  ExplainedMemory memory;
  std::vector<SplitTrial> splits;  ///< rules that would save repeated work
  AxisMask unused_axes = 0;        ///< mesh dimensions of more than one position that split nothing
  std::vector<std::string> warnings;
  std::vector<std::string> notes;
};

Explanation make_explanation(const Session& session, Diagnostics& diagnostics);

}  // namespace mtf
