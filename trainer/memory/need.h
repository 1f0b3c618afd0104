// What a run will take of this process's memory, from its programs: the sum is what the process, which hosts
// some or all of the mesh, has resident once it has trained, evaluated and saved.
//
//   const MemoryNeed need = memory_need(session, {&step, &evaluation}, {.snapshot = true});
//   for (const MemoryNeed::Part& part : need.parts) ...   // {"weights", 268500992}, ...
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/spmd/program.h"
#include "trainer/session/evaluation_sets.h"
#include "trainer/session/session.h"

namespace mtf {

struct MemoryNeed {
  struct Part {
    std::string name;
    int64_t bytes = 0;
  };
  std::vector<Part> parts;  ///< "weights", "optimizer slots", "inputs", "temporaries", ...; none is 0
  int64_t total() const;
};

/// What a run does besides running its programs.
struct MemoryUse {
  bool snapshot = false;        ///< checkpoints are written from a copy of all variables
  bool check_replicas = false;  ///< run.check_replicas
  std::span<const EvaluationSet> evaluation_sets = {};
  int64_t decoding = 0;  ///< bytes for texts that evaluations write
};

/// `programs`: the training step, the evaluation, or both in this order; they share the variables.
MemoryNeed memory_need(const Session& session, const std::vector<const Program*>& programs,
                       const MemoryUse& use);
/// What this program has resident beside tensors and data: its code, libraries and configuration.
int64_t process_itself_bytes();
/// What a program adds to it: instructions with their kernels, threads. `replicate`: run.check_replicas.
int64_t own_bytes(const Program& program, int64_t threads, bool replicate, Hosting hosting);

/// `program` evaluates (build_evaluation); else it trains.
bool is_evaluation(const Program& program);

}  // namespace mtf
