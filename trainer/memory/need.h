// Estimates the memory that a run needs in this process, which hosts some or all mesh positions, from its
// programs. The sum is the resident memory after the process has trained, evaluated and saved.
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
  std::vector<Part> parts;  ///< "weights", "optimizer slots", "inputs", ...; zero parts are omitted
  int64_t total() const;
};

/// The uses of memory besides running programs.
struct MemoryUse {
  bool snapshot = false;        ///< checkpoints are written from a copy of the variables
  bool check_replicas = false;  ///< run.check_replicas
  std::span<const EvaluationSet> evaluation_sets = {};
  int64_t decoding = 0;  ///< bytes for decoding texts in evaluations
};

/// Returns the memory of `programs`: the training step, the evaluation, or both in this order; they share the
/// variables.
MemoryNeed memory_need(const Session& session, const std::vector<const Program*>& programs,
                       const MemoryUse& use);
/// Returns the resident memory of the process besides tensors and data: its code, libraries and
/// configuration.
int64_t process_itself_bytes();
/// Returns what a program adds to process_itself_bytes(): instructions with their kernels, and threads.
/// `replicate` is run.check_replicas.
int64_t own_bytes(const Program& program, int64_t threads, bool replicate, Hosting hosting);

/// True if `program` evaluates (build_evaluation); otherwise it trains.
bool is_evaluation(const Program& program);

}  // namespace mtf
