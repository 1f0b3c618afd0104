// Executor runs a Program on all positions of this process.
//
//   const std::unique_ptr<Backend> backend = make_cpu_backend();
//   VariableStore variables(*backend, program.mesh, program.variables);
//   variables.initialize(seed);
//   Executor executor(program, *backend, variables, {.threads = 2, .seed = seed});
//   executor.feed("image", batch.data());
//   executor.run(step);
//   double loss = executor.scalar("loss");
//
// The constructor prepares everything: after the first step nothing is allocated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/comm/communicator.h"
#include "engine/core/profile.h"
#include "engine/runtime/host_tensor.h"
#include "engine/runtime/memory_plan.h"
#include "engine/runtime/non_finite.h"
#include "engine/runtime/variable_store.h"
#include "engine/runtime/workspace.h"
#include "engine/spmd/program.h"

namespace mtf {

struct ExecutorOptions {
  int threads = 1;  ///< where the executor has a workspace of its own
  uint64_t seed = 1;
  /// Every position computes all values that it holds, and replicas are compared bit for bit.
  bool check_replicas = false;
  /// Connects to the other processes that host positions of the mesh; null if there are none. All of them run
  /// the same programs in the same order, and the programs were partitioned for asynchronous collectives.
  Communicator* communicator = nullptr;
  /// With several processes, computation continues while a collective runs, until its result is needed.
  bool overlap = true;
  /// Shared with executors that run at other times, whose results it then overwrites; null: one of its own.
  Workspace* workspace = nullptr;
  Profile* profile = nullptr;  ///< receives a span for each instruction; may be null
  /// For tests (random sleeps): each worker calls it before each task.
  std::function<void()> before_task{};
};

/// Work done by the positions of this process since the executor was made, counted where it is done.
struct Counters {
  int64_t runs = 0;
  double flops_per_position = 0;  ///< FLOPs of contractions, averaged over the positions
  /// Bytes that a position receives in collectives, averaged over the positions. Over the whole mesh this
  /// equals the bytes sent. Independent of the number of processes.
  double bytes_per_position = 0;
  double bytes_to_processes = 0;  ///< bytes that this process sent to other processes
};

/// A part of an input, row-major, that contains the slices held by the positions of a process.
struct FedPart {
  const void* data;
  const Shape& shape;
  std::span<const int64_t> begin;  ///< the index of the first element; for the axes behind these it is 0
  bool in_bytes = false;           ///< for an input of float32: uint8, of which 255 becomes 1
};

class Executor {
 public:
  Executor(Program program, Backend& backend, VariableStore& variables, const ExecutorOptions& options);
  ~Executor();

  /// Copies an input (row-major, declared order) into the slices of the positions that hold it. `data` begins
  /// at index `first` of the leading dimension and must extend to the end of the slices held here.
  void feed(const std::string& name, const void* data, int64_t first = 0);
  /// The same from a part of the input.
  void feed(const std::string& name, const FedPart& part);
  void feed_scalar(const std::string& name, double value);
  /// The memory of an input's slice at a position of this process, which the caller may fill instead of
  /// calling feed(). Null if the program does not depend on the input. Only for backends in host memory.
  std::byte* input(const std::string& name, int64_t position);
  /// Runs the program once. A device may still be computing when the call returns; what is fed next does not
  /// disturb it. Throws Error naming the instruction when check_replicas finds a difference.
  void run(uint64_t step);
  /// From now on each run ends by making the value of an output the input of the next run, on the device. An
  /// input that is fed has the value that it is fed. Both must have the same slices.
  void carry(const std::string& output, const std::string& input);
  /// From now on each run copies the values of these outputs, which no position has in part, to the host, where a
  /// device does not wait for them to be read.
  void report(const std::vector<std::string>& outputs);
  /// The elements that the last run (0) or the one before it (1) has reported, in the order of report(). Waits
  /// for that run only. The values are valid until the next call; it does not allocate.
  std::span<const double> reported(int runs_ago);
  /// The whole output of this name. Where other processes hold parts of it, every process must call it.
  HostTensor fetch(const std::string& name) const;
  /// The slice of an output at a position whose copy is in this process. The pointer is to the output itself
  /// or to `buffer`.
  const std::byte* slice(const std::string& name, int64_t position, std::vector<std::byte>& buffer) const;
  /// The value of a 0-dimensional output; does not allocate.
  double scalar(const std::string& name) const;
  /// The elements of an output that no position has in part.
  std::vector<double> elements(const std::string& name) const;

  const Program& program() const;
  const MemoryPlan& memory() const;
  const Counters& counters() const;
  /// The number of kernels, copies and other pieces of work of one run, as a device has recorded it; 0 on the host, and
  /// before the second run.
  int64_t recorded_nodes() const;
  /// Examines the inputs that were fed and the variables, then runs the program and examines every result.
  /// Returns the first of these tensors that holds a non-finite value, or nothing if all values are finite.
  /// Every process must call it; all get the same answer.
  std::optional<NonFinite> first_non_finite(uint64_t step);

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace mtf
