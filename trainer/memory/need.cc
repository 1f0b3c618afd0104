#include "trainer/memory/need.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "engine/comm/process/remote_job.h"
#include "engine/runtime/collective_of.h"
#include "engine/runtime/collective_scratch.h"
#include "engine/runtime/memory_plan.h"
#include "engine/runtime/prepared_program.h"
#include "trainer/session/feed.h"

namespace mtf {
namespace {

// Measured resident bytes: of mtf-train besides tensors and data (its code, libraries and configuration), of
// an instruction with its kernel, of each mesh coordinate of an instruction, of a thread, and of the
// connections to other processes with their threads and records.
constexpr int64_t kProgramBytes = 20'200'000;
constexpr int64_t kInstructionBytes = 3'000;
constexpr int64_t kCoordinateBytes = 100;
constexpr int64_t kThreadBytes = 16'000;
constexpr int64_t kConnectionsBytes = 700'000;

class Sum {
 public:
  explicit Sum(std::vector<MemoryNeed::Part>& parts) : parts_(parts) {}

  void add(const std::string& name, int64_t bytes) {
    if (bytes > 0) parts_.push_back({name, bytes});
  }

 private:
  std::vector<MemoryNeed::Part>& parts_;
};

/// Returns the bytes of the slices that this process saves: those that no process of a lower rank holds.
int64_t snapshot_bytes(const ProgramVariable& v, const HostedMesh& hosted) {
  const AxisMask varies = v.layout.varies();
  const HostedCopies copies = hosted.copies(varies);
  int64_t slices = 0;
  for (int64_t copy = 0; copy < copies.size(); ++copy)
    slices += hosted.holds_first(copies.position(copy), varies) ? 1 : 0;
  return slices * slice_shape(v.variable.shape, v.layout, hosted.mesh()).size() *
         static_cast<int64_t>(size_of(v.variable.dtype));
}

/// `is_host`: variables are in the memory of the host. Those of a device are copied slice by slice, and a single
/// process then puts the slices together.
void add_variables(const Program& program, const HostedMesh& hosted, const MemoryUse& use, bool is_host,
                   Sum& sum) {
  std::array<int64_t, 3> stored{};  // bytes by Variable::Kind
  int64_t snapshot = 0;
  for (const ProgramVariable& v : program.variables) {
    stored[static_cast<size_t>(v.variable.kind)] += process_bytes(v, hosted, use.check_replicas);
    const bool is_assembled = !is_host && hosted.processes() == 1 && v.layout.varies() != 0;
    snapshot += snapshot_bytes(v, hosted) * (is_assembled ? 2 : 1);
  }
  sum.add("weights", stored[static_cast<size_t>(Variable::Kind::kWeight)]);
  sum.add("statistics", stored[static_cast<size_t>(Variable::Kind::kStatistic)]);
  sum.add("optimizer slots", stored[static_cast<size_t>(Variable::Kind::kSlot)]);
  if (use.snapshot) sum.add("checkpoint snapshot", snapshot);
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
int64_t batch_bytes(const Session& session, const Program& program, std::span<const EvaluationSet> sets) {
  const BatchPart part = part_of(program, hosting_of(session.config));
  if (!is_evaluation(program)) {
    const int64_t size = batch_size_of(program, train_batch_size(session.config, session.layouts));
    return Prefetcher::bytes({session.train_data, TrainingBatches{.batch_size = size}, part},
                             Prefetcher::kDepth, runs_ahead(session) ? 2 : 1);
  }
  const int64_t size = batch_size_of(program, evaluate_batch_size(session.config, session.layouts));
  int64_t most = 0;
  for (const EvaluationSet& set : sets) {
    const BatchStream stream(set.source, EvaluationBatches{.batch_size = size, .limit = set.limit}, part);
    most = std::max(most, Prefetcher::bytes(stream));
  }
  return most;
}

int64_t instruction_bytes(const Program& program, const std::vector<Instruction>& block, bool replicate,
                          const HostedMesh& mesh) {
  int64_t bytes = 0;
  for (const Instruction& instruction : block) {
    AxisMask varies = replicate ? program.mesh.all_axes() : 0;
    for (const ValueId id : instruction.outputs) varies |= program.values[id].varies;
    bytes += kInstructionBytes + kCoordinateBytes * mesh.size_of(varies);
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

/// Adds the buffers of collectives that go through host memory.
void add_messages(const std::vector<const Program*>& programs, Hosting hosting, bool replicate, Sum& sum) {
  if (hosting.processes == 1) return;
  int64_t largest = 0;
  for (const Program* program : programs) {
    largest = std::max(
        largest, largest_collective(*program, program->instructions, {program->mesh, hosting}, replicate));
  }
  sum.add("messages between processes", Staging::most_bytes(hosting.processes, largest));
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

MemoryNeed memory_need(const Session& session, const std::vector<const Program*>& programs,
                       const MemoryUse& use) {
  MemoryNeed need;
  Sum sum(need.parts);
  const Hosting hosting = hosting_of(session.config);
  add_variables(*programs[0], {programs[0]->mesh, hosting}, use, session.backend->is_host(), sum);
  const int64_t threads = thread_count(session.config);
  int64_t itself = process_itself_bytes();
  if (hosting.processes > 1) sum.add("connections between processes", kConnectionsBytes);
  for (const Program* program : programs) {
    const MemoryPlan plan = plan_memory(*program, use.check_replicas, hosting);
    const std::string of = is_evaluation(*program) ? " of the evaluation" : "";
    // A device has two more blocks of inputs, which are being sent, and the host the same.
    sum.add("inputs" + of, plan.process.inputs * (session.backend->is_host() ? 1 : 5));
    sum.add("temporaries" + of, plan.process.temporaries);
    sum.add("kernel scratch" + of, threads * kernel_scratch_bytes(*program, *session.backend));
    sum.add("batches read ahead" + of, batch_bytes(session, *program, use.evaluation_sets));
    itself += own_bytes(*program, threads, use.check_replicas, hosting);
  }
  if (!expects_nccl(session)) {
    add_messages(programs, hosting, use.check_replicas, sum);
  } else {
    sum.add("scratch of collectives between GPUs",
            collective_scratch_bytes(programs, {.hosting = hosting,
                                                .replicate = use.check_replicas,
                                                .overlap = session.config.cluster.overlap}));
  }
  if (session.train_data) sum.add("training data", session.train_data->bytes_in_memory());
  int64_t evaluation_data = 0;
  for (const EvaluationSet& set : use.evaluation_sets) evaluation_data += set.source->bytes_in_memory();
  sum.add("evaluation data", evaluation_data);
  sum.add("decoding in the evaluation", use.decoding);
  sum.add("program itself", itself);
  return need;
}

}  // namespace mtf
