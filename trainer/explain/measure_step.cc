#include "trainer/explain/measure_step.h"

#include <utility>

#include "trainer/explain/prediction.h"
#include "trainer/explain/schedule.h"

namespace mtf {
namespace {

/// The memory in which the results of layers are.
TightMemory activation_memory(const RunMemory& need, const MemoryLimits& limits) {
  if (limits.device) return {need.device.total(), *limits.device};
  return {need.host.total(), limits.host};
}

}  // namespace

StepMeasure::StepMeasure(const Session& session, TrainStepOptions options, const Program* evaluation,
                         const MemoryUse& use, MemoryLimits limits)
    : session_(session),
      options_(std::move(options)),
      evaluation_(evaluation),
      use_(use),
      limits_(std::move(limits)),
      model_(cost_model_of(session.config, session.layouts.mesh, !session.backend->is_host(), reported_)) {}

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
    std::vector<const Program*> programs{&program};
    if (evaluation_ != nullptr) programs.push_back(evaluation_);
    result.need = memory_need(session_, programs, use_);
    const std::vector<ScheduleItem> schedule = schedule_of(program, model_);
    result.step.is_legal = true;
    result.step.trial.memory = activation_memory(result.need, limits_);
    result.step.trial.fits = fits(result.need, limits_);
    result.step.trial.seconds = predict_step(schedule, model_.step_seconds()).seconds;
    if (recompute == Recompute(RecomputeWord::kNone))
      result.step.layers = recomputable_layers(step.layers, program, schedule);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kConfig) throw;
  }
  return result;
}

}  // namespace mtf
