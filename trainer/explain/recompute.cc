#include "trainer/explain/recompute.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "trainer/explain/prediction.h"
#include "trainer/memory/microbatches.h"
#include "trainer/report/progress.h"

namespace mtf {
namespace {

/// The memory in which the results of layers are.
TightMemory activation_memory(const RunMemory& need, const MemoryLimits& limits) {
  if (limits.device) return {need.device.total(), *limits.device};
  return {need.host.total(), limits.host};
}

std::string memory_text(const TightMemory& memory) {
  return fmt::format("{} of {} ({})", bytes_text(static_cast<double>(memory.need)),
                     bytes_text(static_cast<double>(memory.limit.bytes)), memory.limit.source);
}

class Choice {
 public:
  Choice(const Session& session, const RecomputeRequest& request)
      : session_(session),
        request_(request),
        options_(request.options),
        model_(cost_model_of(session.config, session.layouts.mesh, !session.backend->is_host(), reported_)),
        search_({.counts = request.chooses_microbatches
                               ? microbatch_counts(session.layouts, request.options.batch_size)
                               : std::vector<int64_t>{request.options.microbatches},
                 .is_pipelined = session.layouts.pipeline.has_value(),
                 .measure = [this](const Recompute& recompute, int64_t microbatches) {
                   return compiled(recompute, microbatches);
                 }}) {}

  RecomputeChoice run() {
    if (request_.before) {
      const MeasuredStep& kept = search_.measure(request_.before->microbatches, request_.before->recompute);
      if (kept.trial.fits) return with_curve(kept, request_.before->reason);
    }
    const MeasuredStep* best = search_.run();
    const bool fits = best != nullptr;
    if (!fits) best = search_.least_memory();
    return with_curve(*best, fits ? numbers(*best) : numbers(*best) + ": nothing fits, and this needs least");
  }

 private:
  RecomputeChoice with_curve(const MeasuredStep& chosen, const std::string& why) {
    if (request_.compares_block) {
      search_.measure(chosen.trial.microbatches, RecomputeWord::kNone);
      search_.measure(chosen.trial.microbatches, RecomputeWord::kBlock);
    }
    RecomputeChoice choice = result(chosen, why);
    choice.trials = curve(chosen);
    return choice;
  }

  MeasuredStep compiled(const Recompute& recompute, int64_t microbatches) {
    MeasuredStep result;
    options_.microbatches = microbatches;
    options_.recompute = recompute;
    try {
      const TrainStep step = build_train_step(*session_.model, session_.train_data->features(), options_);
      result.has_batch_statistics = !step.batch_statistics.empty();
      Diagnostics problems;
      check_layouts(*step.graph, session_.layouts, problems);
      if (problems.has_errors()) return result;
      const Program program = compile(session_, *step.graph);
      std::vector<const Program*> programs{&program};
      if (request_.evaluation != nullptr) programs.push_back(request_.evaluation);
      const RunMemory need = memory_need(session_, programs, request_.use);
      const std::vector<ScheduleItem> schedule = schedule_of(program, model_);
      result.is_legal = true;
      result.trial.memory = activation_memory(need, request_.limits);
      result.trial.fits = mtf::fits(need, request_.limits);
      result.trial.seconds = predict_step(schedule, model_.hardware().device.step).seconds;
      if (recompute == Recompute(RecomputeWord::kNone))
        result.layers = recomputable_layers(step.layers, program, schedule);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kConfig) throw;
    }
    return result;
  }

  /// RecomputeChoice::trials.
  std::vector<RecomputeTrial> curve(const MeasuredStep& chosen) const {
    std::vector<const MeasuredStep*> all = search_.measured();
    std::ranges::stable_sort(all,
                             [](const MeasuredStep* a, const MeasuredStep* b) { return is_faster(*a, *b); });
    std::vector<RecomputeTrial> trials;
    double least = std::numeric_limits<double>::infinity();
    for (const MeasuredStep* measured : all) {
      const RecomputeTrial& trial = measured->trial;
      const bool is_shown = measured == &chosen || (trial.microbatches == chosen.trial.microbatches &&
                                                    std::holds_alternative<RecomputeWord>(trial.recompute));
      if (!is_shown && measured->share() >= least) continue;
      least = std::min(least, measured->share());
      trials.push_back(trial);
    }
    return trials;
  }

  std::string numbers(const MeasuredStep& chosen) {
    std::string text = fmt::format("{} a step predicted, {}", predicted_time_text(chosen.trial.seconds),
                                   memory_text(chosen.trial.memory));
    const MeasuredStep& none = search_.measure(chosen.trial.microbatches, RecomputeWord::kNone);
    if (&none == &chosen || !none.is_legal) return text;
    return text + fmt::format("; none takes {} and {}", predicted_time_text(none.trial.seconds),
                              bytes_text(static_cast<double>(none.trial.memory.need)));
  }

  RecomputeChoice result(const MeasuredStep& chosen, const std::string& why) const {
    const RecomputeTrial& trial = chosen.trial;
    std::string reason = fmt::format("train.recompute: auto is {}", recompute_text(trial.recompute));
    if (request_.chooses_microbatches)
      reason += fmt::format(", train.microbatches: auto is {}", trial.microbatches);
    return {trial.recompute, trial.microbatches, fmt::format("{}: {}", reason, why), {}};
  }

  const Session& session_;
  const RecomputeRequest& request_;
  TrainStepOptions options_;
  Diagnostics reported_;  ///< by explain
  const CostModel model_;
  RecomputeSearch search_;
};

}  // namespace

RecomputeChoice choose_recompute(const Session& session, const RecomputeRequest& request) {
  return Choice(session, request).run();
}

}  // namespace mtf
