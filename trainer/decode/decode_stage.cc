#include "trainer/decode/decode_stage.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

namespace mtf {
namespace {

/// True if the caches of `plan` are the first rows of those of `other`.
bool lies_within(const DecodePlan& plan, const DecodePlan& other) {
  const DecodeSizes &a = plan.sizes, &b = other.sizes;
  return a.texts <= b.texts && a.beam == b.beam && a.inputs == b.inputs && a.memory == b.memory;
}

}  // namespace

DecodeMemory::DecodeMemory(const Session& session, int threads)
    : backend(*session.backend), workspace(backend, threads) {}

std::shared_ptr<DeviceMemory> DecodeMemory::caches(size_t half, DType dtype, int64_t bytes) {
  return halves[half].try_emplace(dtype, backend).first->second.at_least(bytes);
}

bool DecodeMemory::grows(size_t half, const Need& need) const {
  int64_t room = 0;
  for (const auto& [dtype, memory] : halves[half]) room += memory.bytes();
  return need.temporaries > workspace.temporaries.bytes() ||
         scratch_bytes(need) > workspace.scratch.bytes() || need.caches > room;
}

void DecodeMemory::reserve(const Need& need) {
  workspace.temporaries.at_least(need.temporaries);
  workspace.scratch.at_least(scratch_bytes(need));
}

CachePlace CachePlace::after(const DecodeStage& before, const DecodePlan& plan) {
  if (lies_within(plan, before.plan())) return {before.half(), &before};
  return beside(before);
}

CachePlace CachePlace::beside(const DecodeStage& stage) { return {1 - stage.half()}; }

DecodeStage::DecodeStage(DecodePrograms& programs, VariableStore& weights, const DecodePlan& plan,
                         DecodeMemory& memory, const CachePlace& place, StageUse use)
    : programs_(programs), weights_(weights), plan_(plan), memory_(memory), half_(place.half) {
  DecodeProgram program = use == StageUse::kSteps ? programs.take_step(plan) : programs.take_prefill(plan);
  bytes_ = program.input_bytes + program.own_bytes;
  const Session& session = programs.environment().session;
  VariableStoreOptions options = variable_store_options(session, {&weights});
  // Replicas can be compared only where they have the same history, so those have memory of their own.
  if (!options.replicate) {
    options.session_memory = [this](DType dtype, int64_t bytes) {
      return memory_.caches(half_, dtype, bytes);
    };
    if (place.within != nullptr) options.within = place.within->variables_.get();
  }
  variables_ = std::make_unique<VariableStore>(*session.backend, program.program.mesh,
                                               program.program.variables, options);
  (use == StageUse::kSteps ? step_ : prefill_) = executor(std::move(program.program), *variables_);
}

std::unique_ptr<Executor> DecodeStage::executor(Program program, VariableStore& variables) {
  const Session& session = programs_.environment().session;
  ExecutorOptions options = executor_options(session);
  options.workspace = &memory_.workspace;
  return std::make_unique<Executor>(std::move(program), *session.backend, variables, options);
}

Executor& DecodeStage::prefill() {
  if (prefill_) return *prefill_;
  DecodeProgram prefill = programs_.take_prefill(plan_);
  bytes_ += prefill.input_bytes + prefill.own_bytes;
  const Session& session = programs_.environment().session;
  prefill_variables_ =
      std::make_unique<VariableStore>(*session.backend, prefill.program.mesh, prefill.program.variables,
                                      variable_store_options(session, {variables_.get(), &weights_}));
  prefill_ = executor(std::move(prefill.program), *prefill_variables_);
  return *prefill_;
}

void DecodeStage::take(const DecodeStage& other, std::span<const MovedRow> rows, int64_t filled) {
  const Program& program = step_->program();
  const HostedMesh mesh(program.mesh, hosting_of(programs_.environment().session.config));
  std::vector<ProgramVariable> caches;
  std::ranges::copy_if(program.variables, std::back_inserter(caches),
                       [](const ProgramVariable& v) { return v.variable.kind == Variable::Kind::kSession; });
  take_cache_rows(caches, mesh, rows, filled, *other.variables_, *variables_);
}

}  // namespace mtf
