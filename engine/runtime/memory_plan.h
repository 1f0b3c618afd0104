// Where the temporaries of a program live: lifetimes are known, so offsets are planned once.
//
// Values that vary over the same mesh dimensions share one arena, of which there is one copy for each
// coordinate that the process has over those dimensions; so a worker may run far ahead on one coordinate
// without touching the memory of another. Dimensions along which the positions of the process do not differ
// do not count: a process with one position has one arena. Devices give memory in whole pages: what a process
// takes is counted in these.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/core/hosted_mesh.h"
#include "engine/spmd/lifetimes.h"
#include "engine/spmd/program.h"

namespace mtf {

struct MemoryPlan {
  struct Arena {
    AxisMask varies = 0;
    int64_t bytes = 0;   ///< of one copy
    int64_t copies = 1;  ///< distinct coordinates in this process
  };
  std::vector<int64_t> offsets;  ///< by value, in its arena; -1: not a temporary
  std::map<AxisMask, Arena> arenas;
  AxisMask differing = 0;  ///< mesh dimensions along which the positions of the process differ
  /// The key in `arenas` of values that are stored over these mesh dimensions.
  AxisMask arena_of(AxisMask stored) const { return stored & differing; }
  int64_t variable_bytes = 0;   ///< at rest on one position
  int64_t input_bytes = 0;      ///< on one position
  int64_t temporary_bytes = 0;  ///< on one position, as if alone on its device
  int64_t position_bytes() const { return variable_bytes + input_bytes + temporary_bytes; }

  /// What this process takes; what positions share counts once.
  struct Process {
    int64_t variables = 0;
    int64_t inputs = 0;
    int64_t temporaries = 0;
    int64_t total() const { return variables + inputs + temporaries; }
  } process;
};

/// `bytes` rounded up to whole pages.
constexpr int64_t whole_pages(int64_t bytes) { return (bytes + 4095) / 4096 * 4096; }

/// Plans the temporaries of `program`. `replicate`: every position stores all it holds (run.check_replicas).
MemoryPlan plan_memory(const Program& program, bool replicate = false, Hosting hosting = {});

/// What the slices of a variable take in this process.
int64_t process_bytes(const ProgramVariable& variable, const HostedMesh& mesh, bool replicate = false);

}  // namespace mtf
