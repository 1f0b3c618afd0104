#include "trainer/memory/need.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>

#include "engine/comm/process/remote_job.h"
#include "engine/runtime/collective_of.h"
#include "engine/runtime/collective_scratch.h"
#include "engine/runtime/memory_plan.h"
#include "engine/runtime/prepared_program.h"
#include "trainer/session/feed.h"
#include "trainer/session/model_inputs.h"

namespace mtf {
namespace {

// Measured resident bytes: of mtf-train besides tensors and data (its code, libraries and configuration), of
// an instruction with its kernel, of each mesh coordinate of an instruction, of a thread, and of the
// connections to other processes with their threads and records.
constexpr int64_t kProgramBytes = 23'800'000;
constexpr int64_t kInstructionBytes = 3'000;
constexpr int64_t kCoordinateBytes = 100;
constexpr int64_t kThreadBytes = 16'000;
constexpr int64_t kConnectionsBytes = 1'500'000;

class Sum {
 public:
  explicit Sum(std::vector<MemoryNeed::Part>& parts) : parts_(parts) {}

  void add(const std::string& name, int64_t bytes) {
    if (bytes > 0) parts_.push_back({name, bytes});
  }

 private:
  std::vector<MemoryNeed::Part>& parts_;
};

/// Returns the bytes of a slice. A process saves those slices that no process of a lower rank holds.
int64_t slice_bytes(const ProgramVariable& v, const Mesh& mesh) {
  return bytes_of(slice_shape(v.variable.shape, v.layout, mesh), v.variable.dtype);
}

/// Adds the variables to `memory`; those in the host's memory and the snapshot go to `host`. `is_host`: all variables are in
/// the memory of the host.
/// Those of a device are copied slice by slice, and a single process then puts the slices together.
void add_variables(const Program& program, const HostedMesh& hosted, const MemoryUse& use, bool is_host,
                   Sum& memory, Sum& host) {
  std::array<int64_t, Variable::kKinds> stored{};  // bytes by kind
  int64_t snapshot = 0, slots_on_host = 0;
  for (const ProgramVariable& v : program.variables) {
    (v.variable.on_host ? slots_on_host : stored[static_cast<size_t>(v.variable.kind)]) +=
        process_bytes(v, hosted, use.check_replicas);
    const bool is_assembled = !is_host && hosted.processes() == 1 && v.layout.varies() != 0;
    if (!v.variable.is_saved()) continue;
    snapshot += hosted.first_held(v.layout.copies()) * slice_bytes(v, hosted.mesh()) * (is_assembled ? 2 : 1);
  }
  memory.add("weights", whole_pages(stored[static_cast<size_t>(Variable::Kind::kWeight)]));
  memory.add("statistics", whole_pages(stored[static_cast<size_t>(Variable::Kind::kStatistic)]));
  memory.add("optimizer slots", whole_pages(stored[static_cast<size_t>(Variable::Kind::kSlot)]));
  memory.add("teacher weights", whole_pages(stored[static_cast<size_t>(Variable::Kind::kConstant)]));
  memory.add("copies of weights", whole_pages(stored[static_cast<size_t>(Variable::Kind::kCopy)]));
  host.add("optimizer slots", whole_pages(slots_on_host));
  if (use.snapshot) host.add("checkpoint snapshot", snapshot);
}

/// Returns the bytes of the copies of weights that only this program reads.
int64_t copied_bytes(const Program& program, const MemoryUse& use) {
  const HostedMesh hosted(program.mesh, use.hosting);
  int64_t bytes = 0;
  for (const ProgramVariable& v : program.variables) {
    if (v.variable.kind == Variable::Kind::kCopy) bytes += process_bytes(v, hosted, use.check_replicas);
  }
  return whole_pages(bytes);
}

/// Returns the number of examples in a batch of `program`; `otherwise` if it reads none.
int64_t batch_size_of(const Program& program, int64_t otherwise) {
  for (const auto& [name, id] : program.inputs) {
    const Shape& shape = program.values[id].shape;
    if (shape.rank() > 0 && shape[0].name == kBatch) return shape[0].size;
  }
  return otherwise;
}

/// Returns the bytes of a program's batch buffers. Evaluation data sets are read one after the other.
int64_t batch_bytes(const Session& session, const Program& program, const MemoryUse& use) {
  const BatchPart part = part_of(program, use.hosting);
  if (!is_evaluation(program)) {
    const int64_t size = batch_size_of(program, train_batch_size(session.config, session.layouts));
    return Prefetcher::bytes({session.train_data, TrainingBatches{.batch_size = size}, part},
                             Prefetcher::kDepth, runs_ahead(session) ? 2 : 1);
  }
  const int64_t size = batch_size_of(program, evaluate_batch_size(session.config, session.layouts));
  int64_t most = 0;
  for (const EvaluationSet& set : use.evaluation_sets) {
    const BatchStream stream(set.source, EvaluationBatches{.batch_size = size, .limit = set.limit}, part);
    most = std::max(most, Prefetcher::bytes(stream));
  }
  return most;
}

int64_t instruction_bytes(const Program& program, const std::vector<Instruction>& block, bool replicate,
                          const HostedMesh& mesh) {
  int64_t bytes = 0;
  for (const Instruction& instruction : block) {
    const int64_t coordinates =
        instruction.outputs.empty() ? 1 : mesh.size_of(computed_over(program, instruction, replicate));
    if (coordinates > 0) bytes += kInstructionBytes + kCoordinateBytes * coordinates;
    bytes += instruction_bytes(program, instruction.body(), replicate, mesh);
  }
  return bytes;
}

/// Returns the input or output bytes, whichever is larger, of the largest collective between processes.
int64_t largest_collective(const Program& program, const std::vector<Instruction>& block,
                           const HostedMesh& mesh, bool replicate) {
  int64_t largest = 0;
  for (const Instruction& instruction : block) {
    largest = std::max(largest, largest_collective(program, instruction.body(), mesh, replicate));
    if (!instruction.is_collective()) continue;
    int64_t taken = 0, given = 0;
    for (const ValueId id : instruction.inputs) taken += program.local_bytes(id);
    for (const ValueId id : instruction.outputs) given += program.local_bytes(id);
    const int64_t bytes = std::max(taken, given);
    if (bytes > largest && crosses_processes(program, instruction, mesh, replicate)) largest = bytes;
  }
  return largest;
}

/// Returns the bytes of the operands and results of all collectives between processes. Those of a GPU have host
/// copies where Gloo carries them.
int64_t staged_bytes(const Program& program, const std::vector<Instruction>& block, const HostedMesh& mesh,
                     bool replicate) {
  int64_t bytes = 0;
  for (const Instruction& instruction : block) {
    bytes += staged_bytes(program, instruction.body(), mesh, replicate);
    if (!instruction.is_collective() || !crosses_processes(program, instruction, mesh, replicate)) continue;
    for (const std::vector<ValueId>* ids : {&instruction.inputs, &instruction.outputs}) {
      for (const ValueId id : *ids)
        bytes += program.local_bytes(id) * mesh.size_of(stored_over(program, id, replicate));
    }
  }
  return bytes;
}

/// Adds the buffers of collectives that go through host memory.
void add_messages(const std::vector<const Program*>& programs, const MemoryUse& use, bool is_host,
                  Sum& host) {
  if (use.hosting.processes == 1) return;
  int64_t largest = 0, staged = 0;
  for (const Program* program : programs) {
    const HostedMesh mesh(program->mesh, use.hosting);
    largest =
        std::max(largest, largest_collective(*program, program->instructions, mesh, use.check_replicas));
    staged += staged_bytes(*program, program->instructions, mesh, use.check_replicas);
  }
  host.add("messages between processes", Staging::most_bytes(use.hosting.processes, largest));
  if (!is_host) host.add("copies of what the GPU sends and receives", staged);
}

/// True if a collective of the block sends messages to single processes instead of around a ring.
bool sends_directly(const std::vector<Instruction>& block) {
  return std::ranges::any_of(block, [](const Instruction& instruction) {
    return instruction.collective<action::AllToAll>() || instruction.collective<action::Exchange>() ||
           instruction.collective<action::Send>() || sends_directly(instruction.body());
  });
}

/// Adds the sizes of the allocations for running a program on a device.
void add_allocations(const MemoryPlan& plan, int64_t scratch, std::vector<int64_t>& sizes) {
  for (const auto& [mask, arena] : plan.arenas) sizes.push_back(arena.bytes * arena.copies);
  sizes.insert(sizes.end(), {plan.process.inputs, 2 * plan.process.inputs, scratch});
}

}  // namespace

int64_t MemoryNeed::total() const {
  return std::accumulate(parts.begin(), parts.end(), int64_t{0},
                         [](int64_t sum, const Part& part) { return sum + part.bytes; });
}

int64_t process_itself_bytes() { return kProgramBytes; }

int64_t own_bytes(const Program& program, int64_t threads, bool replicate, Hosting hosting) {
  return threads * kThreadBytes +
         instruction_bytes(program, program.instructions, replicate, {program.mesh, hosting});
}

bool is_evaluation(const Program& program) { return program.output("examples") != kNoValue; }

int64_t kernel_threads(const Session& session) {
  return session.backend->is_host() ? thread_count(session.config) : 1;
}

void add_device_reserve(const Session& session, std::span<const Program* const> programs, Hosting hosting,
                        std::span<const int64_t> allocations, RunMemory& need) {
  if (!session.device_budget) return;
  const DeviceMemoryState& state = session.device_budget->state;
  Sum host(need.host.parts), device(need.device.parts);
  host.add("driver, libraries and pinned buffers (estimate)", state.host);
  const int64_t bytes = std::accumulate(allocations.begin(), allocations.end(), int64_t{0});
  device.add("rounding of allocations", std::max<int64_t>(0, state.taken(allocations) - bytes));
  device.add("kernels and graphs of the driver (estimate)", state.driver);
  const bool is_gloo =
      session.config.cluster.collectives == Collectives::kGloo || session.device_budget->processes > 1;
  if (hosting.processes == 1 || is_gloo) return;
  constexpr int kMostPeers = 8;  // those of one machine; others are reached through shared buffers
  const bool direct = std::ranges::any_of(
      programs, [](const Program* program) { return sends_directly(program->instructions); });
  const int peers = direct ? std::min(hosting.processes - 1, kMostPeers) : 0;
  device.add("buffers of NCCL (estimate)", state.collectives + peers * state.collectives_per_peer);
}

std::vector<int64_t> kernel_scratch(const Session& session, const std::vector<const Program*>& programs) {
  std::vector<int64_t> bytes;
  for (const Program* program : programs)
    bytes.push_back(kernel_threads(session) * kernel_scratch_bytes(*program, *session.backend));
  return bytes;
}

RunMemory memory_need(const Session& session, const std::vector<const Program*>& programs,
                      const MemoryUse& use) {
  return memory_need(session, programs, use, kernel_scratch(session, programs));
}

RunMemory memory_need(const Session& session, const std::vector<const Program*>& programs,
                      const MemoryUse& use, std::span<const int64_t> scratch) {
  RunMemory need;
  const bool is_host = session.backend->is_host(), replicate = use.check_replicas;
  const Hosting hosting = use.hosting;
  Sum host(need.host.parts), device(need.device.parts);
  Sum& memory = is_host ? host : device;  // of tensors
  add_variables(*programs[0], {programs[0]->mesh, hosting}, use, is_host, memory, host);
  std::vector<int64_t> allocations;
  for (const MemoryNeed::Part& part : need.device.parts) allocations.push_back(part.bytes);
  int64_t itself = process_itself_bytes();
  if (hosting.processes > 1) host.add("connections between processes", kConnectionsBytes);
  for (size_t i = 0; i < programs.size(); ++i) {
    const Program* const program = programs[i];
    const MemoryPlan plan = plan_arenas(*program, replicate, hosting);
    const std::string of = is_evaluation(*program) ? " of the evaluation" : "";
    if (program != programs[0]) memory.add("copies of weights" + of, copied_bytes(*program, use));
    memory.add("inputs" + of, plan.process.inputs);
    if (!is_host) {  // two blocks are being sent
      device.add("inputs that arrive" + of, 2 * plan.process.inputs);
      host.add("inputs that are sent to the GPU" + of, 2 * plan.process.inputs);
    }
    memory.add("temporaries" + of, plan.process.temporaries);
    host.add("results kept for the backward pass", plan.process.temporaries_on_host);
    memory.add("kernel scratch" + of, scratch[i]);
    host.add("batches read ahead" + of, batch_bytes(session, *program, use));
    itself += own_bytes(*program, thread_count(session.config), replicate, hosting);
    add_allocations(plan, scratch[i], allocations);
  }
  if (!expects_nccl(session)) {
    add_messages(programs, use, is_host, host);
  } else {
    const int64_t bytes = collective_scratch_bytes(
        programs, {.hosting = hosting, .replicate = replicate, .overlap = session.config.cluster.overlap});
    device.add("scratch of collectives between GPUs", bytes);
    allocations.push_back(bytes);
  }
  if (session.train_data) {
    host.add("training data", session.train_data->bytes_in_memory());
    host.add("drawing the next epoch (estimate)", session.train_data->bytes_of_making_epochs());
  }
  int64_t evaluation_data = 0;
  for (const EvaluationSet& set : use.evaluation_sets) evaluation_data += set.source->bytes_in_memory();
  host.add("evaluation data", evaluation_data);
  host.add("decoding in the evaluation", use.decoding.host);
  device.add("decoding in the evaluation", use.decoding.device);
  host.add("program itself", itself);
  add_device_reserve(session, programs, hosting, allocations, need);
  return need;
}

std::set<int> tightest_processes(const std::vector<const Program*>& programs, const MemoryUse& use,
                                 std::span<const ProcessRoom> rooms) {
  const Mesh& mesh = programs[0]->mesh;
  std::set<Copies> held;
  for (const Program* program : programs) {
    for (const Value& value : program->values) held.insert(mesh.stored(value.copies(), use.check_replicas));
    for (const ProgramVariable& v : program->variables)
      held.insert(mesh.stored(v.layout.copies(), use.check_replicas));
  }
  std::map<Copies, int64_t> saved;  // bytes of a slice of all variables that have these copies
  for (const ProgramVariable& v : programs[0]->variables) {
    if (use.snapshot && v.variable.is_saved()) saved[v.layout.copies()] += slice_bytes(v, mesh);
  }
  std::map<std::vector<int64_t>, std::pair<ProcessRoom, ProcessRoom>> tightest;  // in host and device memory
  for (ProcessRoom room : rooms) {
    const HostedMesh hosted(mesh, {use.hosting.processes, room.process});
    for (const auto& [copies, bytes] : saved) room.host -= hosted.first_held(copies) * bytes;
    std::vector<int64_t> slices;
    for (const Copies& copies : held) slices.push_back(hosted.size_of(copies));
    auto& [host, device] = tightest.try_emplace(std::move(slices), room, room).first->second;
    if (room.host < host.host) host = room;
    if (room.device < device.device) device = room;
  }
  std::set<int> processes;
  for (const auto& [slices, rooms_of_alike] : tightest)
    processes.insert({rooms_of_alike.first.process, rooms_of_alike.second.process});
  return processes;
}

RunMemory largest_need(const Session& session, const std::vector<const Program*>& programs, MemoryUse use) {
  return largest_need(session, programs, use, kernel_scratch(session, programs));
}

RunMemory largest_need(const Session& session, const std::vector<const Program*>& programs, MemoryUse use,
                       std::span<const int64_t> scratch) {
  std::vector<ProcessRoom> rooms;  // all have the same
  for (int process = 0; process < use.hosting.processes; ++process) rooms.push_back({.process = process});
  RunMemory largest;
  for (const int process : tightest_processes(programs, use, rooms)) {
    use.hosting.process = process;
    RunMemory need = memory_need(session, programs, use, scratch);
    if (need.host.total() > largest.host.total()) largest.host = std::move(need.host);
    if (need.device.total() > largest.device.total()) largest.device = std::move(need.device);
  }
  return largest;
}

}  // namespace mtf
