#include "trainer/explain/explained_memory.h"

#include <algorithm>
#include <array>

#include "engine/runtime/memory_plan.h"
#include "trainer/decode/decoding_memory.h"

namespace mtf {
namespace {

/// Returns the bytes of the variables on one position of a stage, by Variable::Kind, without those in the host's memory.
std::array<int64_t, Variable::kKinds> variable_bytes(const Program& program, int64_t stage) {
  std::array<int64_t, Variable::kKinds> bytes{};
  for (const ProgramVariable& v : program.variables) {
    if (v.variable.on_host || (v.layout.pin && v.layout.pin->coordinate != stage)) continue;
    const Shape local = slice_shape(v.variable.shape, v.layout, program.mesh);
    bytes[static_cast<size_t>(v.variable.kind)] += bytes_of(local, v.variable.dtype);
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
  const std::vector<MemoryPlan::Position> step = position_memory(*programs[0]);
  const size_t stage = MemoryPlan::largest(step);
  for (const MemoryPlan::Position& position : step) memory.stages.push_back(position.total());
  const auto variables = variable_bytes(*programs[0], static_cast<int64_t>(stage));
  add("weights", variables[static_cast<size_t>(Variable::Kind::kWeight)]);
  add("optimizer slots", variables[static_cast<size_t>(Variable::Kind::kSlot)]);
  add("statistics", variables[static_cast<size_t>(Variable::Kind::kStatistic)]);
  add("teacher weights", variables[static_cast<size_t>(Variable::Kind::kConstant)]);
  for (const Program* program : programs) {
    const bool is_step = program == programs[0];
    const std::vector<MemoryPlan::Position> stages = is_step ? step : position_memory(*program);
    const MemoryPlan::Position& position = stages[std::min(stage, stages.size() - 1)];
    const std::string of = is_step ? "" : " of the evaluation";
    if (is_step) memory.step_bytes = position.total();
    if (!is_step)
      add("copies of weights" + of,
          variable_bytes(*program, static_cast<int64_t>(stage))[static_cast<size_t>(Variable::Kind::kCopy)]);
    add("inputs" + of, position.inputs);
    add("temporaries" + of, position.temporaries);
  }
  constexpr bool kSnapshot = true;
  memory.on_device = !session.backend->is_host();
  if (!memory.on_device) add("checkpoint snapshot", variables[0] + variables[1] + variables[2]);
  RunMemory need = largest_need(
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
