// The memory of a run as the arena plan has it: of one position alone on its device, and of this process.
#pragma once

#include <span>
#include <vector>

#include "trainer/memory/memory_check.h"
#include "trainer/session/session.h"

namespace mtf {

/// The training step, the evaluation where there is one, and the snapshot from which checkpoints are written.
struct ExplainedMemory {
  std::vector<MemoryNeed::Part> position;  ///< tensors of one position alone on its device; none is 0
  int64_t position_bytes = 0;
  int64_t step_bytes = 0;  ///< of them, what the training step alone takes
  MemoryNeed process;      ///< what the positions of this process share counts once
  MemoryLimit limit;
  bool position_fits() const { return position_bytes <= limit.bytes; }
  bool process_fits() const { return process.total() <= limit.bytes; }
};

/// `programs`: the training step, then the evaluation where there is one. `evaluation_sets`: those whose data
/// are counted.
ExplainedMemory explain_memory(const Session& session, const std::vector<const Program*>& programs,
                               std::span<const EvaluationSet> evaluation_sets);

}  // namespace mtf
