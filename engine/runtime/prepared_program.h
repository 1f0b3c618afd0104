// A program with its memory and its kernels: everything that can be decided
// before the first step.
#pragma once

#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/comm/remote_groups.h"
#include "engine/core/hosted_mesh.h"
#include "engine/runtime/memory_plan.h"
#include "engine/runtime/variable_store.h"
#include "engine/spmd/program.h"

namespace mtf {

/// One collective of a bucket: one input and one output value.
struct CollectivePart {
  std::unique_ptr<PreparedCollective> collective;
  int64_t members = 1;
  int64_t tasks = 0;                     ///< for each coordinate
  std::vector<const std::byte*> inputs;  ///< by coordinate: those of all members
  std::vector<int64_t> member;           ///< by coordinate: which member's result it is
  std::vector<double> positions;         ///< by coordinate: how many positions have the result
  std::vector<std::byte*> results;       ///< by coordinate
};

/// A collective between processes, from its start until its result is awaited.
struct PendingCollective {
  std::unique_ptr<RemoteCollective> collective;
  double bytes = 0;  ///< that the positions of this process receive from others, whichever process has these
  bool running = false;  ///< started, unless its guard did not hold
};

struct PreparedSegment;

/// One instruction, for all coordinates over which its results vary.
struct PreparedStep {
  const Instruction* instruction = nullptr;
  int64_t coordinates = 1;
  double positions = 1;            ///< that each coordinate stands for
  std::unique_ptr<Kernel> kernel;  ///< local operations and moves
  int64_t tasks = 0;               ///< of the kernel, for each coordinate
  size_t inputs = 0, outputs = 0;
  std::vector<Slice> slices;                ///< by coordinate: inputs, then outputs
  std::vector<const bool*> guards;          ///< by coordinate; empty: always runs
  std::vector<CollectivePart> parts;        ///< collectives within this process
  PendingCollective* pending = nullptr;     ///< a collective between processes
  std::vector<PendingCollective*> awaited;  ///< of a done
  std::vector<PreparedSegment> body;        ///< repeat
};

/// Consecutive steps that a worker can run for one coordinate without waiting
/// for others.
struct PreparedSegment {
  enum class Kind { kLocal, kCollective, kDone, kRepeat };
  Kind kind = Kind::kLocal;
  int64_t coordinates = 1;
  std::vector<PreparedStep> steps;
};

class PreparedProgram {
 public:
  /// For the positions of the communicator's process. `replicate`: every
  /// position stores and computes all that it holds.
  PreparedProgram(Program program, Backend& backend, Communicator& communicator, VariableStore& variables,
                  uint64_t seed, bool replicate);

  const Program& program() const { return program_; }
  const HostedMesh& mesh() const { return mesh_; }
  const MemoryPlan& memory() const { return memory_; }
  const std::vector<PreparedSegment>& segments() const { return segments_; }
  /// Of one worker.
  size_t scratch_bytes() const { return scratch_bytes_; }
  /// The memory of a value's slice at a position; its copy must be in this
  /// process.
  std::byte* address(ValueId id, int64_t position) const;
  /// Mesh dimensions over which a value has copies of its own.
  AxisMask stored(ValueId id) const;
  /// The copies of a value in this process, or of the results of an
  /// instruction, for such mesh dimensions.
  const HostedCopies& copies(AxisMask mask) const;
  /// Global index of the first element of a value's slice at a position; lives
  /// as long as the program.
  const std::vector<int64_t>& begin(ValueId id, int64_t position);

 private:
  void allocate();
  std::vector<PreparedSegment> prepare(const std::vector<Instruction>& block);
  PreparedStep prepare(const Instruction& instruction);
  PreparedStep prepare_done(const Instruction& instruction);
  void prepare_local(const Instruction& instruction, PreparedStep& step);
  void prepare_collective(const Instruction& instruction, PreparedStep& step);
  void prepare_remote(const Instruction& instruction, PreparedStep& step);
  AxisMask computed_over(const Instruction& instruction) const;
  /// By the positions of this process.
  double bytes_received(const Instruction& instruction) const;

  Program program_;
  Backend& backend_;
  Communicator& communicator_;
  VariableStore& variables_;
  const uint64_t seed_;
  const bool replicate_;
  const HostedMesh mesh_;
  mutable std::map<AxisMask, HostedCopies> copies_;
  MemoryPlan memory_;
  std::map<AxisMask, std::unique_ptr<DeviceMemory>> arenas_;
  std::vector<std::unique_ptr<DeviceMemory>> inputs_;
  std::vector<int64_t> input_bytes_;  ///< of one copy, by input
  std::deque<std::vector<int64_t>> begins_;
  std::map<std::pair<ValueId, int64_t>, const std::vector<int64_t>*> begin_of_;
  std::deque<PendingCollective> pending_;
  std::map<ValueId, PendingCollective*> pending_of_;  ///< by result
  std::vector<PreparedSegment> segments_;
  size_t scratch_bytes_ = 0;
};

/// The scratch memory, in whole pages, that a worker needs to run any kernel of
/// `program`.
int64_t kernel_scratch_bytes(const Program& program, Backend& backend);

}  // namespace mtf
