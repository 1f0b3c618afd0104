// PreparedProgram is a program with its memory and kernels: everything that can be decided before the first
// step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/comm/remote_groups.h"
#include "engine/core/hosted_mesh.h"
#include "engine/runtime/memory_plan.h"
#include "engine/runtime/position_sums.h"
#include "engine/runtime/program_inputs.h"
#include "engine/runtime/variable_store.h"
#include "engine/runtime/workspace.h"
#include "engine/spmd/program.h"

namespace mtf {

/// One collective of a bucket, with one input and one output value.
struct CollectivePart {
  std::unique_ptr<PreparedCollective> collective;
  int64_t members = 1;
  int64_t tasks = 0;                     ///< tasks for each coordinate
  std::vector<const std::byte*> inputs;  ///< inputs of all members, by coordinate
  std::vector<int64_t> member;           ///< member whose result is computed, by coordinate
  std::vector<double> positions;         ///< number of positions that have the result, by coordinate
  std::vector<std::byte*> results;       ///< result, by coordinate
};

/// A collective between processes, from its start until its result is awaited.
struct PendingCollective {
  std::unique_ptr<RemoteCollective> collective;
  /// Bytes that the positions of this process receive from other positions, of this or another process.
  double bytes = 0;
  bool running = false;  ///< has been started; stays false if its guard does not hold
};

/// An instruction, prepared for all copies of its results that this process computes.
struct PreparedStep {
  const Instruction* instruction = nullptr;
  /// The iteration in which it runs: Instruction::iteration, or else that of the loop around it.
  int64_t iteration_in(int64_t loop) const {
    return instruction->iteration >= 0 ? instruction->iteration : loop;
  }
  std::vector<const bool*> guards = {};  ///< by coordinate; empty if the step always runs
  bool writes_variables = false;
};

/// Coordinates at which a step runs, one call of the kernel for each.
struct StepCoordinates {
  Copies computed;    ///< copies of the results
  int64_t count = 1;  ///< calls: one for each copy, or for each group of copies that one call computes
  /// The copies in the order of such groups (JointPositions); empty if each copy has a call of its own.
  std::vector<int64_t> grouped = {};
  bool operator==(const StepCoordinates&) const = default;
};

/// Runs the kernel of a local operation or move.
struct KernelStep : PreparedStep {
  StepCoordinates at = {};
  double positions = 1;  ///< what a kernel counts at each coordinate is counted so many times
  std::unique_ptr<Kernel> kernel = {};
  int64_t tasks = 0;  ///< tasks of the kernel for each coordinate
  /// Those of a call; each has those of one position after the other.
  size_t inputs = 0, outputs = 0;
  std::vector<Slice> slices = {};  ///< inputs, then outputs, for each coordinate
  std::vector<ValueId> results =
      {};            ///< values that it makes: those of the instruction, or the total of its terms
  double bytes = 0;  ///< bytes that positions receive in that sum, by task
};

/// Consecutive kernels that a worker can run for one coordinate without waiting for other workers; or, where each has fewer
/// coordinates than there are threads, whose tasks the workers share.
struct KernelSteps {
  StepCoordinates at;  ///< of all steps, or where workers share their tasks of the first one
  std::vector<KernelStep> steps;
  /// Where groups of steps end that may run at the same time (concurrent_steps). Empty with a coordinate for each thread.
  std::vector<size_t> ends = {};
};

/// Runs a collective within this process.
struct CollectiveStep : PreparedStep {
  int64_t coordinates = 1;
  std::vector<CollectivePart> parts = {};
};

/// Starts a collective between processes.
struct StartStep : PreparedStep {
  PendingCollective* pending = nullptr;
};

/// Begins to copy between the memory of a GPU and that of its machine.
struct TransferStep : PreparedStep {
  MemoryTransfer* transfer = nullptr;
};

/// Waits for collectives between processes, or for transfers.
struct WaitStep : PreparedStep {
  std::vector<PendingCollective*> awaited = {};
  std::vector<MemoryTransfer*> transfers = {};
};

struct PreparedSegment;

/// Runs `body` `count` times.
struct LoopStep : PreparedStep {
  int64_t count = 1;
  std::vector<PreparedSegment> body;
};

/// What runs between two points at which all workers wait for each other.
struct PreparedSegment {
  std::variant<KernelSteps, CollectiveStep, StartStep, TransferStep, WaitStep, LoopStep> steps;
};

class PreparedProgram {
 public:
  /// Prepares the positions hosted by the communicator's process. With `replicate` every position stores and
  /// computes all values that it holds.
  PreparedProgram(Program program, Backend& backend, Communicator& communicator, VariableStore& variables,
                  Workspace& workspace, uint64_t seed, bool replicate);

  const Program& program() const { return program_; }
  const HostedMesh& mesh() const { return mesh_; }
  const MemoryPlan& memory() const { return memory_; }
  const std::vector<PreparedSegment>& segments() const { return segments_; }
  /// The scratch memory of one worker.
  size_t scratch_bytes() const { return scratch_bytes_; }
  ProgramInputs& inputs() { return *inputs_; }
  const ProgramInputs& inputs() const { return *inputs_; }
  /// The offset of the slice of a position in the memory of an input.
  int64_t offset_in_input(ValueId id, int64_t position) const;
  /// The memory of a value's slice at a position; this process must hold that copy.
  std::byte* address(ValueId id, int64_t position) const;
  /// The copies of a value that are stored.
  Copies stored(ValueId id) const;
  /// The value whose maker computes `id`: the term of a total that is made with its terms, else `id`.
  ValueId computed_as(ValueId id) const;
  /// Those of `copies` that this process holds or computes.
  const HostedCopies& copies(const Copies& copies) const;
  /// The global index of the first element of a value's slice at a position. The reference lives as long as
  /// this object.
  const std::vector<int64_t>& begin(ValueId id, int64_t position);

 private:
  void allocate(SharedMemory& temporaries);
  std::vector<PreparedSegment> prepare(const std::vector<Instruction>& block);
  KernelStep prepare_kernel(const Instruction& instruction);
  /// A step that makes the total of the instruction's results at several positions, if that is wanted and the backend can.
  std::optional<KernelStep> prepare_total(const Instruction& instruction);
  /// Lets one call compute several coordinates, if the backend gains by it.
  void join_coordinates(KernelStep& step);
  void set_kernel(KernelStep& step, std::unique_ptr<Kernel> kernel);
  Slice slice(ValueId id, int64_t position) { return {address(id, position), begin(id, position).data()}; }
  CollectiveStep prepare_collective(const Instruction& instruction);
  bool has_at_rest(const Instruction& instruction, int64_t position) const;
  int64_t receiving_member(const Instruction& instruction, int64_t member) const;
  StartStep prepare_start(const Instruction& instruction);
  TransferStep prepare_transfer(const Instruction& instruction);
  WaitStep prepare_wait(const Instruction& instruction) const;
  /// The instruction with the addresses of its guard, and whether it writes variables.
  PreparedStep prepare_step(const Instruction& instruction) const;
  Copies computed_over(const Instruction& instruction) const;
  /// The number of positions of this process that have one of these copies.
  int64_t positions_of(const Copies& copies) const;
  /// The bytes that the positions of this process receive in a collective.
  double bytes_received(const Instruction& instruction) const;

  Program program_;
  Backend& backend_;
  Communicator& communicator_;
  VariableStore& variables_;
  const int threads_;
  const uint64_t seed_;
  const bool replicate_;
  const HostedMesh mesh_;
  RemoteGroupPlans groups_;
  mutable std::map<Copies, HostedCopies> copies_;
  const std::map<ValueId, PositionSum> sums_;
  std::map<ValueId, ValueId> terms_;  ///< by total: the term with which it is made
  MemoryPlan memory_;
  std::vector<std::shared_ptr<DeviceMemory>> memories_;  ///< where the arenas are
  std::map<Copies, std::byte*> arenas_, host_arenas_;
  std::unique_ptr<ProgramInputs> inputs_;
  std::deque<std::vector<int64_t>> begins_;
  std::map<std::pair<ValueId, int64_t>, const std::vector<int64_t>*> begin_of_;
  std::deque<PendingCollective> pending_;
  std::map<ValueId, PendingCollective*>
      pending_of_;  ///< by result value; those in which this process takes part
  std::map<ValueId, std::unique_ptr<MemoryTransfer>> transfers_;  ///< by result value
  StartStep last_start_;                                          ///< the last one that was prepared
  std::vector<PreparedSegment> segments_;
  size_t scratch_bytes_ = 0;
};

/// The scratch memory, in whole pages, that a worker needs to run any kernel of `program`.
int64_t kernel_scratch_bytes(const Program& program, Backend& backend);

}  // namespace mtf
