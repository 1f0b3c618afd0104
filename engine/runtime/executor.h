// Runs a Program on all positions of this process.
//
//   const std::unique_ptr<Backend> backend = make_cpu_backend();
//   VariableStore variables(*backend, program.mesh, program.variables);
//   variables.initialize(seed);
//   Executor executor(program, *backend, variables, {.threads = 2, .seed = seed});
//   executor.feed("image", batch.data());
//   executor.run(step);
//   double loss = executor.scalar("loss");
//
// Everything is prepared by the constructor: after the first step nothing is allocated.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "engine/backend/backend.h"
#include "engine/comm/communicator.h"
#include "engine/core/profile.h"
#include "engine/runtime/host_tensor.h"
#include "engine/runtime/memory_plan.h"
#include "engine/runtime/non_finite.h"
#include "engine/runtime/variable_store.h"
#include "engine/spmd/program.h"

namespace mtf {

struct ExecutorOptions {
  int threads = 1;
  uint64_t seed = 1;
  bool check_replicas =
      false;  ///< every position computes everything it holds; replicas are compared bit for bit
  /// With the other processes that host positions of the mesh, which all run the same programs in the same
  /// order; null: there are none. The program was partitioned for asynchronous collectives then.
  Communicator* communicator = nullptr;
  bool overlap = true;  ///< between processes: computation goes on until a collective's result is needed
  Profile* profile = nullptr;  ///< instructions are spans of it; null: none
  /// Called by each worker before each task, for tests (random sleeps).
  std::function<void()> before_task{};
};

/// Counted where the work is done, since the executor was made, over the positions of this process.
struct Counters {
  int64_t runs = 0;
  double flops_per_position = 0;  ///< of contractions, averaged over the positions
  /// In collectives, averaged over the positions: sent over the whole mesh is what is received. The same for
  /// any number of processes.
  double bytes_per_position = 0;
  double bytes_to_processes = 0;  ///< that this process sent to others
};

class Executor {
 public:
  Executor(Program program, Backend& backend, VariableStore& variables, const ExecutorOptions& options);
  ~Executor();

  /// Copies an input (row-major, declared order) into the slices of the positions that hold it. `first`:
  /// index along the leading dimension at which `data` begin; they reach as far as these slices do.
  void feed(const std::string& name, const void* data, int64_t first = 0);
  void feed_scalar(const std::string& name, double value);
  /// The slice of an input at a position of this process, to be filled in the place of feed(); null: the
  /// program does not depend on it. For backends of the host.
  std::byte* input(const std::string& name, int64_t position);
  /// Runs the program once; a device may be at it still when the call returns. Throws Error naming the
  /// instruction when check_replicas finds a difference.
  void run(uint64_t step);
  /// The whole output of this name; where other processes hold parts of it, every process calls it.
  HostTensor fetch(const std::string& name) const;
  /// The slice of an output at a position whose copy is in this process, where it is or in `buffer`.
  const std::byte* slice(const std::string& name, int64_t position, std::vector<std::byte>& buffer) const;
  /// A 0-dimensional output; does not allocate.
  double scalar(const std::string& name) const;

  const Program& program() const;
  const MemoryPlan& memory() const;
  const Counters& counters() const;
  /// Looks at the inputs that were fed and at the variables, then runs the program, looking at every result:
  /// the first of them that is not finite; nothing: all are. Every process calls it and gets the same.
  std::optional<NonFinite> first_non_finite(uint64_t step);

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace mtf
