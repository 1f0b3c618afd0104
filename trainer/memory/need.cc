#include "trainer/memory/need.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "engine/runtime/memory_plan.h"
#include "engine/runtime/prepared_program.h"

namespace mtf {
namespace {

// Measured: what mtf-train has resident beside tensors and data (its code, libraries and configuration), what
// an instruction with its kernel adds to it, what each of its coordinates adds, and a thread.
constexpr int64_t kProgramBytes = 14'000'000;
constexpr int64_t kInstructionBytes = 3'000;
constexpr int64_t kCoordinateBytes = 100;
constexpr int64_t kThreadBytes = 16'000;

class Sum {
 public:
  explicit Sum(std::vector<MemoryNeed::Part>& parts) : parts_(parts) {}

  void add(const std::string& name, int64_t bytes) {
    if (bytes > 0) parts_.push_back({name, bytes});
  }

 private:
  std::vector<MemoryNeed::Part>& parts_;
};

void add_variables(const Program& program, const MemoryUse& use, Sum& sum) {
  std::array<int64_t, 3> stored{};  // by Variable::Kind
  int64_t whole = 0;
  for (const ProgramVariable& v : program.variables) {
    stored[static_cast<size_t>(v.variable.kind)] += process_bytes(v, program.mesh, use.check_replicas);
    whole += v.variable.shape.size() * static_cast<int64_t>(size_of(v.variable.dtype));
  }
  sum.add("weights", stored[static_cast<size_t>(Variable::Kind::kWeight)]);
  sum.add("statistics", stored[static_cast<size_t>(Variable::Kind::kStatistic)]);
  sum.add("optimizer slots", stored[static_cast<size_t>(Variable::Kind::kSlot)]);
  if (use.snapshot) sum.add("checkpoint snapshot", whole);
}

/// Examples in a batch of `program`; `otherwise`: it reads none.
int64_t batch_size_of(const Program& program, int64_t otherwise) {
  for (const auto& [name, id] : program.inputs) {
    const Shape& shape = program.values[id].shape;
    if (shape.rank() > 0 && shape[0].name == kBatch) return shape[0].size;
  }
  return otherwise;
}

/// Buffers of the batches of one program at a time: evaluation data sets take turns.
int64_t batch_bytes(const Session& session, const Program& program, std::span<const EvaluationSet> sets) {
  if (!is_evaluation(program)) {
    const int64_t size = batch_size_of(program, train_batch_size(session.config, session.layouts));
    return Prefetcher::bytes({session.train_data, TrainingBatches{.batch_size = size}});
  }
  const int64_t size = batch_size_of(program, evaluate_batch_size(session.config, session.layouts));
  int64_t most = 0;
  for (const EvaluationSet& set : sets) {
    const BatchStream stream(set.source, EvaluationBatches{.batch_size = size, .limit = set.limit});
    most = std::max(most, Prefetcher::bytes(stream));
  }
  return most;
}

int64_t instruction_bytes(const Program& program, const std::vector<Instruction>& block, bool replicate) {
  int64_t bytes = 0;
  for (const Instruction& instruction : block) {
    AxisMask varies = replicate ? program.mesh.all_axes() : 0;
    for (const ValueId id : instruction.outputs) varies |= program.values[id].varies;
    bytes += kInstructionBytes + kCoordinateBytes * program.mesh.size_of(varies);
    bytes += instruction_bytes(program, instruction.body, replicate);
  }
  return bytes;
}

}  // namespace

int64_t MemoryNeed::total() const {
  return std::accumulate(parts.begin(), parts.end(), int64_t{0},
                         [](int64_t sum, const Part& part) { return sum + part.bytes; });
}

int64_t process_itself_bytes() { return kProgramBytes; }

int64_t own_bytes(const Program& program, int64_t threads, bool replicate) {
  return threads * kThreadBytes + instruction_bytes(program, program.instructions, replicate);
}

bool is_evaluation(const Program& program) { return program.output("examples") != kNoValue; }

MemoryNeed memory_need(const Session& session, const std::vector<const Program*>& programs,
                       const MemoryUse& use) {
  MemoryNeed need;
  Sum sum(need.parts);
  add_variables(*programs[0], use, sum);
  const int64_t threads = thread_count(session.config);
  int64_t itself = process_itself_bytes();
  for (const Program* program : programs) {
    const MemoryPlan plan = plan_memory(*program, use.check_replicas);
    const std::string of = is_evaluation(*program) ? " of the evaluation" : "";
    sum.add("inputs" + of, plan.process.inputs);
    sum.add("temporaries" + of, plan.process.temporaries);
    sum.add("kernel scratch" + of, threads * kernel_scratch_bytes(*program, *session.backend));
    sum.add("batches read ahead" + of, batch_bytes(session, *program, use.evaluation_sets));
    itself += own_bytes(*program, threads, use.check_replicas);
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
