#include "trainer/costs/measure_step.h"

#include <utility>

#include "trainer/costs/prediction.h"
#include "trainer/costs/schedule.h"

namespace mtf {
namespace {

/// The memory in which the results of layers are.
TightMemory activation_memory(const RunMemory& need, const MemoryLimits& limits) {
  if (limits.device) return {need.device.total(), *limits.device};
  return {need.host.total(), limits.host};
}

}  // namespace

StepMeasure::StepMeasure(const Session& session, TrainStepOptions options, const Program* evaluation,
                         const MemoryUse& use, ProcessLimits limits)
    : session_(session),
      options_(std::move(options)),
      evaluation_(evaluation),
      use_(use),
      limits_(std::move(limits)),
      model_(cost_model_of(session.config, session.layouts.mesh, !session.backend->is_host(), reported_)) {}

void StepMeasure::set_memory(const Program& program, CompiledStep& result) const {
  std::vector<const Program*> programs{&program};
  if (evaluation_ != nullptr) programs.push_back(evaluation_);
  std::vector<ProcessRoom> rooms;
  for (const auto& [process, limits] : limits_) {
    rooms.push_back({process, limits.host.bytes, limits.device ? limits.device->bytes : 0});
  }
  const std::vector<int64_t> scratch = kernel_scratch(session_, programs);
  RecomputeTrial& trial = result.step.trial;
  trial.fits = true;
  MemoryUse use = use_;
  for (const int process : tightest_processes(programs, use, rooms)) {
    use.hosting.process = process;
    const MemoryLimits& limits = limits_.at(process);
    const RunMemory need = memory_need(session_, programs, use, scratch);
    trial.fits &= fits(need, limits);
    const TightMemory activations = activation_memory(need, limits), tight = tightest(need, limits);
    if (activations.share() >= trial.memory.share()) trial.memory = activations;
    if (tight.share() >= result.tightest.share()) result.tightest = tight;
  }
}

CompiledStep StepMeasure::operator()(const Recompute& recompute, int64_t microbatches) {
  CompiledStep result;
  options_.microbatches = microbatches;
  options_.recompute = recompute;
  try {
    const TrainStep step = build_train_step(*session_.model, session_.train_data->features(), options_);
    result.batch_statistics = step.batch_statistics;
    result.step.has_batch_statistics = !step.batch_statistics.empty();
    Diagnostics problems;
    check_layouts(*step.graph, session_.layouts, problems);
    if (problems.has_errors()) return result;
    const Program program = compile(session_, *step.graph);
    const std::vector<ScheduleItem> schedule = schedule_of(program, model_);
    result.step.is_legal = true;
    set_memory(program, result);
    result.step.trial.seconds = predict_step(schedule, model_.step_seconds()).seconds;
    if (recompute == Recompute(RecomputeWord::kNone))
      result.step.layers = recomputable_layers(step.layers, program, schedule);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kConfig) throw;
  }
  return result;
}

}  // namespace mtf
