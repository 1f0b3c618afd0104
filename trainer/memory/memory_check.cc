#include "trainer/memory/memory_check.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/runtime/memory_plan.h"
#include "trainer/memory/advice.h"
#include "trainer/report/progress.h"

namespace mtf {
namespace {

/// A tensor that is listed in the details of the error.
struct LargeTensor {
  int64_t bytes = 0;  ///< size in this process
  std::string text;
};

void add_variables(const Program& program, bool replicate, Hosting hosting,
                   std::vector<LargeTensor>& tensors) {
  const HostedMesh mesh(program.mesh, hosting);
  for (const ProgramVariable& v : program.variables) {
    tensors.push_back({process_bytes(v, mesh, replicate),
                       fmt::format("{} {}  variable `{}`", short_name(v.variable.dtype),
                                   to_string(v.variable.shape, v.layout, program.mesh), v.variable.name)});
  }
}

/// Adds the results of instructions that have their own memory in the plan.
void add_temporaries(const Program& program, const std::vector<Instruction>& block, const MemoryPlan& plan,
                     bool replicate, const HostedMesh& mesh, std::vector<LargeTensor>& tensors) {
  for (const Instruction& instruction : block) {
    add_temporaries(program, instruction.body(), plan, replicate, mesh, tensors);
    for (const ValueId id : instruction.outputs) {
      if (plan.offsets[id] < 0) continue;
      const Value& value = program.values[id];
      const AxisMask stored = replicate ? program.mesh.all_axes() : value.varies;
      const std::string& layer = instruction.provenance.path;
      tensors.push_back({program.local_bytes(id) * mesh.size_of(stored),
                         fmt::format("{} {}  {} `{}`{}", short_name(value.dtype),
                                     to_string(value.shape, value.layout, program.mesh),
                                     is_evaluation(program) ? "in the evaluation, result of" : "result of",
                                     name_of(instruction), layer.empty() ? "" : " in layer " + layer)});
    }
  }
}

std::vector<LargeTensor> largest_tensors(const std::vector<const Program*>& programs, bool replicate,
                                         Hosting hosting) {
  constexpr size_t kMost = 8;
  std::vector<LargeTensor> tensors;
  add_variables(*programs[0], replicate, hosting, tensors);
  for (const Program* program : programs) {
    add_temporaries(*program, program->instructions, plan_memory(*program, replicate, hosting), replicate,
                    {program->mesh, hosting}, tensors);
  }
  std::ranges::stable_sort(tensors,
                           [](const LargeTensor& a, const LargeTensor& b) { return a.bytes > b.bytes; });
  if (tensors.size() > kMost) tensors.resize(kMost);
  return tensors;
}

std::string line_of(int64_t bytes, const std::string& text) {
  return fmt::format("\n{:>12}  {}", bytes_text(static_cast<double>(bytes)), text);
}

std::string details_of(const MemoryNeed& need, const std::vector<LargeTensor>& tensors) {
  std::string text = "what it is for:";
  std::vector<MemoryNeed::Part> parts = need.parts;
  std::ranges::stable_sort(parts, [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  for (const MemoryNeed::Part& part : parts) text += line_of(part.bytes, part.name);
  if (!tensors.empty()) text += "\nlargest tensors (bytes in this process):";
  for (const LargeTensor& tensor : tensors) text += line_of(tensor.bytes, tensor.text);
  return text;
}

std::string message_of(int64_t needed, const MemoryLimit& limit) {
  std::string need = bytes_text(static_cast<double>(needed));
  std::string may = bytes_text(static_cast<double>(limit.bytes));
  if (need == may) {
    need = with_thousands(static_cast<double>(needed)) + " B";
    may = with_thousands(static_cast<double>(limit.bytes)) + " B";
  }
  return fmt::format("the run needs {} of memory and may take {} ({})", need, may, limit.source);
}

std::string hint_of(const std::vector<std::string>& advice) {
  if (advice.empty())
    return "a smaller model, or more memory: no batch size or layout that was tried makes it fit";
  return fmt::format("{}: {}", advice.size() == 1 ? "this fits" : "each of these fits",
                     fmt::join(advice, "; "));
}

[[noreturn]] void refuse(const Session& session, const MemoryNeed& need, const MemoryLimit& limit,
                         const std::vector<std::string>& advice, const std::vector<LargeTensor>& tensors) {
  Problem problem;
  problem.kind = ErrorKind::kMemory;
  if (session.config.run.memory_limit.value) problem.mark = session.config.mark("run.memory_limit");
  problem.message = message_of(need.total(), limit);
  problem.hint = hint_of(advice);
  problem.details = details_of(need, tensors);
  throw Error(std::vector<Problem>{std::move(problem)});
}

}  // namespace

MemoryUse memory_use(const Session& session, bool snapshot, std::span<const EvaluationSet> evaluation_sets,
                     int64_t decoding_bytes) {
  return {snapshot, session.config.run.check_replicas, evaluation_sets, decoding_bytes};
}

MemoryNeed memory_need(const Session& session, const std::vector<const Program*>& programs, bool snapshot,
                       std::span<const EvaluationSet> evaluation_sets, int64_t decoding_bytes) {
  return memory_need(session, programs, memory_use(session, snapshot, evaluation_sets, decoding_bytes));
}

MemoryLimit memory_limit(const Config& config) {
  const auto& given = config.run.memory_limit.value;
  return given ? MemoryLimit{given->value, "run.memory_limit"} : available_memory(config.launch.local_size);
}

void check_memory(const Session& session, const std::vector<const Program*>& programs, bool snapshot,
                  std::span<const EvaluationSet> evaluation_sets, const DecodingNeed& decoding) {
  const MemoryUse use = memory_use(session, snapshot, evaluation_sets, decoding.bytes);
  const MemoryNeed need = memory_need(session, programs, use);
  const MemoryLimit limit = memory_limit(session.config);
  if (need.total() <= limit.bytes) return;
  std::vector<std::string> advice = memory_advice(session, programs, use, limit.bytes);
  if (decoding.advice)
    std::ranges::move(decoding.advice(limit.bytes - need.total() + use.decoding), std::back_inserter(advice));
  refuse(session, need, limit, advice,
         largest_tensors(programs, use.check_replicas, hosting_of(session.config)));
}

void check_memory(const Session& session, const MemoryNeed& need,
                  const std::function<std::vector<std::string>(int64_t limit)>& advice) {
  const MemoryLimit limit = memory_limit(session.config);
  if (need.total() > limit.bytes) refuse(session, need, limit, advice(limit.bytes), {});
}

}  // namespace mtf
