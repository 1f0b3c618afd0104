// Estimates the memory that a run needs in this process, which hosts some or all mesh positions, from its
// programs: host memory, which is resident after the process has trained, evaluated and saved, and memory of
// its GPU, if it has one.
//
//   const RunMemory need = memory_need(session, {&step, &evaluation}, memory_use(session, true, sets, {}));
//   for (const MemoryNeed::Part& part : need.host.parts) ...   // {"weights", 268500992}, ...
//
// What a run as a whole needs, where its processes differ, is largest_need().
#pragma once

#include <cstdint>
#include <set>
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

/// On the processor everything is host memory.
struct RunMemory {
  MemoryNeed host;
  MemoryNeed device;  ///< empty without a GPU
};

/// The bytes that decoding texts takes in host memory and on the GPU.
struct DecodingBytes {
  int64_t host = 0, device = 0;
};

/// The uses of memory besides running programs.
struct MemoryUse {
  bool snapshot = false;        ///< checkpoints are written from a copy of the variables
  bool check_replicas = false;  ///< run.check_replicas
  std::span<const EvaluationSet> evaluation_sets = {};
  DecodingBytes decoding = {};  ///< in evaluations
  Hosting hosting = {};         ///< the processes that share the mesh
};

/// Returns the memory of `programs`: the training step, the evaluation, or both in this order; they share the
/// variables.
RunMemory memory_need(const Session& session, const std::vector<const Program*>& programs,
                      const MemoryUse& use);
/// The same for kernel_scratch(session, programs). Several threads may ask at a time.
RunMemory memory_need(const Session& session, const std::vector<const Program*>& programs,
                      const MemoryUse& use, std::span<const int64_t> scratch);
/// Returns the largest host memory and the largest device memory that a process of the run needs, whichever of them
/// `use.hosting` names: processes with other stages of a pipeline have other variables and results.
RunMemory largest_need(const Session& session, const std::vector<const Program*>& programs, MemoryUse use);
/// The same for kernel_scratch(session, programs). Several threads may ask at a time.
RunMemory largest_need(const Session& session, const std::vector<const Program*>& programs, MemoryUse use,
                       std::span<const int64_t> scratch);
/// Returns the bytes of the kernel scratch of each program, which all processes have alike. It asks the backend: one thread
/// at a time.
std::vector<int64_t> kernel_scratch(const Session& session, const std::vector<const Program*>& programs);

/// The bytes that a process may take.
struct ProcessRoom {
  int process = 0;
  int64_t host = 0, device = 0;
};
/// Returns those of the processes in `rooms` that may not fit where all others do. Processes that hold equally many slices
/// of every tensor differ only in the variables that they save: of these it is the one that has the least host memory
/// beyond what it saves, and the one that has the least device memory.
std::set<int> tightest_processes(const std::vector<const Program*>& programs, const MemoryUse& use,
                                 std::span<const ProcessRoom> rooms);
/// Returns the number of threads of an executor, each of which has its own kernel scratch.
int64_t kernel_threads(const Session& session);
/// Adds what a GPU takes besides the allocations of the run, whose sizes are `allocations`: driver and libraries,
/// and the rounding of allocations to blocks. `programs` are those whose collectives are run. It adds nothing for
/// the processor and for a GPU that is not here.
void add_device_reserve(const Session& session, std::span<const Program* const> programs, Hosting hosting,
                        std::span<const int64_t> allocations, RunMemory& need);
/// Returns the resident memory of the process besides tensors and data: its code, libraries and
/// configuration.
int64_t process_itself_bytes();
/// Returns what a program adds to process_itself_bytes(): instructions with their kernels, and threads.
/// `replicate` is run.check_replicas.
int64_t own_bytes(const Program& program, int64_t threads, bool replicate, Hosting hosting);

/// True if `program` evaluates (build_evaluation); otherwise it trains.
bool is_evaluation(const Program& program);

}  // namespace mtf
