// Checks before the first step whether the memory that a run needs in this process is within the limits: host
// memory, and the memory of its GPU.
//
//   check_memory(session, {&step, &evaluation}, true, sets, evaluation_decoding(session, sets));
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trainer/memory/available.h"
#include "trainer/memory/need.h"

namespace mtf {

/// The memory of evaluations that decode texts, besides their programs (decode/decoding_memory.h).
struct DecodingNeed {
  DecodingBytes bytes;
  /// Returns changes with which `bytes` are at most `limit`; null if no texts are decoded.
  std::function<std::vector<std::string>(const DecodingBytes& limit)> advice = {};
};

struct MemoryLimits {
  MemoryLimit host;
  std::optional<MemoryLimit> device;  ///< nothing without a GPU whose memory is known
};

/// The limits of processes, by their rank.
using ProcessLimits = std::map<int, MemoryLimits>;

/// Returns the uses of memory of a run with the session's run.check_replicas and processes.
MemoryUse memory_use(const Session& session, bool snapshot, std::span<const EvaluationSet> evaluation_sets,
                     const DecodingBytes& decoding);

/// Returns run.memory_limit, the memory of the machine in `hardware`, or the memory that is available to this process
/// if the run's processes on this machine share it.
MemoryLimit memory_limit(const Config& config);
/// Returns memory_limit(), and run.device_memory_limit, the memory of the GPU in `hardware`, or this process's share of
/// what its GPU has free.
MemoryLimits memory_limits(const Session& session);
/// Returns `limits` for each process of a run that this process only plans, and of a run that it takes part in for itself.
ProcessLimits planned_limits(const Session& session, const MemoryLimits& limits);

bool fits(const RunMemory& need, const MemoryLimits& limits);

/// The memory, host's or device's, of which a run takes the larger share.
struct TightMemory {
  int64_t need = 0;
  MemoryLimit limit;
  double share() const {
    return static_cast<double>(need) / static_cast<double>(std::max<int64_t>(1, limit.bytes));
  }
};
TightMemory tightest(const RunMemory& need, const MemoryLimits& limits);

/// Throws Error (kConfig if the configuration gives the limit, else kMemory) if the need exceeds a limit, with the numbers,
/// the largest tensors and advice. Returns lines for the log that say what is planned. The backend is told the plan of its
/// memory.
std::vector<std::string> check_memory(const Session& session, const std::vector<const Program*>& programs,
                                      bool snapshot, std::span<const EvaluationSet> evaluation_sets = {},
                                      const DecodingNeed& decoding = {});

/// Does the same for another need. `advice` returns changes with which the run fits.
void check_memory(const Session& session, const RunMemory& need,
                  const std::function<std::vector<std::string>(const MemoryLimits& limits)>& advice);

}  // namespace mtf
