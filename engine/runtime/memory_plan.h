// Plans the memory of a program's temporaries. Lifetimes are known, so offsets are assigned once.
//
// Values that have the same copies share an arena. The process has one of the arena for each of these copies, so a worker
// may run far ahead on one coordinate without touching the memory of another. Mesh dimensions along which the positions
// of the process do not differ are ignored: a process with one position has one arena. The variables of a kind share an
// arena, too (VariableStore). The memory of a process is counted in whole pages, as it is allocated.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/hosted_mesh.h"
#include "engine/spmd/lifetimes.h"
#include "engine/spmd/program.h"

namespace mtf {

struct MemoryPlan {
  struct Arena {
    int64_t bytes = 0;   ///< size of one copy
    int64_t copies = 1;  ///< number of copies in this process
  };
  std::vector<int64_t>
      offsets;  ///< by value, within its arena; -1: it is no temporary, or not of this process
  std::map<Copies, Arena> arenas;
  std::map<Copies, Arena> host_arenas;  ///< arenas of values in the host's memory (Value::on_host)
  AxisMask differing = 0;               ///< mesh dimensions along which the positions of the process differ
  /// The key in `arenas` and `host_arenas` for values that are stored so.
  Copies arena_of(const Copies& stored) const {
    const bool has_pin = stored.pin && has_axis(differing, stored.pin->axis);
    return {stored.axes & differing, has_pin ? stored.pin : std::nullopt};
  }

  /// Bytes of one position, as if it were alone on its device.
  struct Position {
    int64_t variables = 0;  ///< at rest, without those in the host's memory (Variable::on_host)
    int64_t inputs = 0;
    int64_t temporaries = 0;  ///< without those in the host's memory
    int64_t total() const { return variables + inputs + temporaries; }
  };
  std::vector<Position> stages;  ///< by stage of the pipeline; a program without stages has one entry
  /// The index of the stage that takes most.
  static size_t largest(const std::vector<Position>& stages) {
    return static_cast<size_t>(std::ranges::max_element(stages, {}, &Position::total) - stages.begin());
  }
  /// That of the largest stage.
  const Position& position() const { return stages[largest(stages)]; }

  /// Bytes that this process allocates; memory shared by positions counts once.
  struct Process {
    int64_t variables = 0;  ///< without those in the host's memory
    int64_t inputs = 0;
    int64_t temporaries = 0;
    int64_t temporaries_on_host = 0;  ///< in the memory of a GPU's machine
  } process;
};

/// `bytes` rounded up to whole pages.
constexpr int64_t whole_pages(int64_t bytes) { return (bytes + 4095) / 4096 * 4096; }

/// Plans the temporaries of `program`. With `replicate` (run.check_replicas) every position stores all values
/// that it holds.
MemoryPlan plan_memory(const Program& program, bool replicate = false, Hosting hosting = {});

/// The same without `stages`.
MemoryPlan plan_arenas(const Program& program, bool replicate = false, Hosting hosting = {});
/// MemoryPlan::stages alone.
std::vector<MemoryPlan::Position> position_memory(const Program& program);
/// The bytes of the stage that takes most.
inline int64_t largest_position_bytes(const Program& program) {
  const std::vector<MemoryPlan::Position> stages = position_memory(program);
  return stages[MemoryPlan::largest(stages)].total();
}

/// `bytes` rounded up to the unit at which variables begin in the arena of their kind; kernels may rely on it.
constexpr int64_t variable_aligned(int64_t bytes) { return (bytes + 255) / 256 * 256; }

/// The bytes that the slices of a variable occupy in this process, in the arena of its kind.
int64_t process_bytes(const ProgramVariable& variable, const HostedMesh& mesh, bool replicate = false);

}  // namespace mtf
