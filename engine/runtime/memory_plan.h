// Plans the memory of a program's temporaries. Lifetimes are known, so offsets are assigned once.
//
// Values that vary over the same mesh dimensions share an arena. The process has one copy of the arena for
// each coordinate that it hosts over those dimensions, so a worker may run far ahead on one coordinate
// without touching the memory of another. Mesh dimensions along which the positions of the process do not
// differ are ignored: a process with one position has one arena. The variables of a kind share an arena, too
// (VariableStore). The memory of a process is counted in whole pages, as it is allocated.
#pragma once

#include <cstdint>
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
    int64_t bytes = 0;   ///< size of one copy
    int64_t copies = 1;  ///< number of distinct coordinates in this process
  };
  std::vector<int64_t> offsets;  ///< by value, within its arena; -1 if it is not a temporary
  std::map<AxisMask, Arena> arenas;
  AxisMask differing = 0;  ///< mesh dimensions along which the positions of the process differ
  /// The key in `arenas` for values that are stored over these mesh dimensions.
  AxisMask arena_of(AxisMask stored) const { return stored & differing; }
  int64_t variable_bytes = 0;   ///< variables at rest on one position
  int64_t input_bytes = 0;      ///< inputs on one position
  int64_t temporary_bytes = 0;  ///< temporaries on one position, as if it were alone on its device
  int64_t position_bytes() const { return variable_bytes + input_bytes + temporary_bytes; }

  /// Bytes that this process allocates; memory shared by positions counts once.
  struct Process {
    int64_t variables = 0;
    int64_t inputs = 0;
    int64_t temporaries = 0;
    int64_t total() const { return variables + inputs + temporaries; }
  } process;
};

/// `bytes` rounded up to whole pages.
constexpr int64_t whole_pages(int64_t bytes) { return (bytes + 4095) / 4096 * 4096; }

/// Plans the temporaries of `program`. With `replicate` (run.check_replicas) every position stores all values
/// that it holds.
MemoryPlan plan_memory(const Program& program, bool replicate = false, Hosting hosting = {});

/// `bytes` rounded up to the unit at which variables begin in the arena of their kind; kernels may rely on it.
constexpr int64_t variable_aligned(int64_t bytes) { return (bytes + 255) / 256 * 256; }

/// The bytes that the slices of a variable occupy in this process, in the arena of its kind.
int64_t process_bytes(const ProgramVariable& variable, const HostedMesh& mesh, bool replicate = false);

}  // namespace mtf
