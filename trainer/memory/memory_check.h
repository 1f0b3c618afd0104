// Checks before the first step whether the memory that a run needs in this process is within the limit.
//
//   check_memory(session, {&step, &evaluation}, true, sets, evaluation_decoding(session, sets));
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "trainer/memory/available.h"
#include "trainer/memory/need.h"

namespace mtf {

/// The memory of evaluations that decode texts, besides their programs (decode/decoding_memory.h).
struct DecodingNeed {
  int64_t bytes = 0;
  /// Returns changes with which `bytes` is at most `limit`; null if no texts are decoded.
  std::function<std::vector<std::string>(int64_t limit)> advice = {};
};

/// Returns the uses of memory of a run with the session's run.check_replicas.
MemoryUse memory_use(const Session& session, bool snapshot, std::span<const EvaluationSet> evaluation_sets,
                     int64_t decoding_bytes);
/// Calls memory_need() of need.h with memory_use().
MemoryNeed memory_need(const Session& session, const std::vector<const Program*>& programs, bool snapshot,
                       std::span<const EvaluationSet> evaluation_sets = {}, int64_t decoding_bytes = 0);

/// Returns run.memory_limit, or the memory that is available to this process if the run's processes on this
/// machine share it.
MemoryLimit memory_limit(const Config& config);

/// Throws Error (kMemory) if the need exceeds the limit, with the numbers, the largest tensors and advice.
void check_memory(const Session& session, const std::vector<const Program*>& programs, bool snapshot,
                  std::span<const EvaluationSet> evaluation_sets = {}, const DecodingNeed& decoding = {});

/// Does the same for another need. `advice` returns changes with which the run needs at most `limit` bytes.
void check_memory(const Session& session, const MemoryNeed& need,
                  const std::function<std::vector<std::string>(int64_t limit)>& advice);

}  // namespace mtf
