#include "trainer/explain/explained_memory.h"

#include <array>

#include "engine/runtime/memory_plan.h"
#include "trainer/decode/decoding_memory.h"

namespace mtf {
namespace {

/// Returns the bytes of the variables on one position, by Variable::Kind.
std::array<int64_t, 4> variable_bytes(const Program& program) {
  std::array<int64_t, 4> bytes{};
  for (const ProgramVariable& v : program.variables) {
    const Shape local = slice_shape(v.variable.shape, v.layout, program.mesh);
    bytes[static_cast<size_t>(v.variable.kind)] +=
        local.size() * static_cast<int64_t>(size_of(v.variable.dtype));
  }
  return bytes;
}

}  // namespace

ExplainedMemory explain_memory(const Session& session, const std::vector<const Program*>& programs,
                               std::span<const EvaluationSet> evaluation_sets) {
  ExplainedMemory memory;
  const auto add = [&](const std::string& name, int64_t bytes) {
    if (bytes > 0) memory.position.push_back({name, bytes});
    memory.position_bytes += bytes;
  };
  const std::array<int64_t, 4> variables = variable_bytes(*programs[0]);
  add("weights", variables[static_cast<size_t>(Variable::Kind::kWeight)]);
  add("optimizer slots", variables[static_cast<size_t>(Variable::Kind::kSlot)]);
  add("statistics", variables[static_cast<size_t>(Variable::Kind::kStatistic)]);
  add("teacher weights", variables[static_cast<size_t>(Variable::Kind::kConstant)]);
  for (const Program* program : programs) {
    const MemoryPlan plan = plan_memory(*program, session.config.run.check_replicas);
    const std::string of = program == programs[0] ? "" : " of the evaluation";
    if (program == programs[0]) memory.step_bytes = plan.position_bytes();
    add("inputs" + of, plan.input_bytes);
    add("temporaries" + of, plan.temporary_bytes);
  }
  constexpr bool kSnapshot = true;
  memory.on_device = !session.backend->is_host();
  if (!memory.on_device) add("checkpoint snapshot", variables[0] + variables[1] + variables[2]);
  RunMemory need = memory_need(
      session, programs,
      memory_use(session, kSnapshot, evaluation_sets, evaluation_decoding(session, evaluation_sets).bytes));
  MemoryLimits limits = memory_limits(session);
  memory.process = std::move(need.host);
  memory.device = std::move(need.device);
  memory.limit = std::move(limits.host);
  memory.device_limit = std::move(limits.device);
  return memory;
}

}  // namespace mtf
