// Memory is checked before the first step: what a run will take of this process's memory against what it may
// take.
//
//   check_memory(session, {&step, &evaluation}, true, sets, evaluation_decoding(session, sets));
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "trainer/memory/available.h"
#include "trainer/memory/need.h"

namespace mtf {

/// What texts that evaluations write take beside the programs (decode/decoding_memory.h).
struct DecodingNeed {
  int64_t bytes = 0;
  /// Changes with which it is no more than `limit`; null where nothing is written.
  std::function<std::vector<std::string>(int64_t limit)> advice = {};
};

/// As memory_need, with run.check_replicas as it is.
MemoryNeed memory_need(const Session& session, const std::vector<const Program*>& programs, bool snapshot,
                       std::span<const EvaluationSet> evaluation_sets = {}, int64_t decoding_bytes = 0);

/// run.memory_limit, or what is available to this process beside the others of the run on its machine.
MemoryLimit memory_limit(const Config& config);

/// Throws Error (kMemory) with the numbers, the largest tensors and what would help, when the need is over
/// the limit.
void check_memory(const Session& session, const std::vector<const Program*>& programs, bool snapshot,
                  std::span<const EvaluationSet> evaluation_sets = {}, const DecodingNeed& decoding = {});

/// The same for another need; `advice`: changes with which the run takes no more than so many bytes.
void check_memory(const Session& session, const MemoryNeed& need,
                  const std::function<std::vector<std::string>(int64_t limit)>& advice);

}  // namespace mtf
