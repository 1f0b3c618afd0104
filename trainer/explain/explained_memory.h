// The planned memory of a run: of one mesh position alone on its device, and of the process and the GPU that need most.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "trainer/memory/memory_check.h"
#include "trainer/session/session.h"

namespace mtf {

/// The memory of the training step, of the evaluation if there is one, and of the snapshot from which
/// checkpoints are written.
struct ExplainedMemory {
  /// Tensors of one position alone on its device; zero parts are omitted.
  std::vector<MemoryNeed::Part> position;
  int64_t position_bytes = 0;
  std::vector<int64_t>
      stages;              ///< by stage of a pipeline: tensors of the training step on one of its positions
  int64_t step_bytes = 0;  ///< the part of position_bytes that the training step alone needs
  MemoryNeed process;      ///< host memory; what the positions of the process share counts once
  MemoryLimit limit;       ///< of the host memory
  bool on_device = false;  ///< tensors are in the memory of a GPU
  MemoryNeed device;       ///< memory of a GPU
  std::optional<MemoryLimit> device_limit;  ///< nothing: it is not known
  bool position_fits() const { return !tensor_limit() || position_bytes <= tensor_limit()->bytes; }
  bool process_fits() const { return process.total() <= limit.bytes; }
  bool device_fits() const { return !device_limit || device.total() <= device_limit->bytes; }

 private:
  const MemoryLimit* tensor_limit() const {
    return !on_device ? &limit : device_limit ? &*device_limit : nullptr;
  }
};

/// `programs` are the training step and, if there is one, the evaluation. The data of `evaluation_sets` are
/// counted.
ExplainedMemory explain_memory(const Session& session, const std::vector<const Program*>& programs,
                               std::span<const EvaluationSet> evaluation_sets);

}  // namespace mtf
