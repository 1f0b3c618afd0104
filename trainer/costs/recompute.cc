#include "trainer/costs/recompute.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "trainer/costs/measure_step.h"
#include "trainer/costs/prediction.h"
#include "trainer/memory/microbatches.h"
#include "trainer/report/progress.h"

namespace mtf {
namespace {

std::string memory_text(const TightMemory& memory) {
  return fmt::format("{} of {} ({})", bytes_text(static_cast<double>(memory.need)),
                     bytes_text(static_cast<double>(memory.limit.bytes)), memory.limit.source);
}

class Choice {
 public:
  Choice(const Session& session, const RecomputeRequest& request)
      : request_(request),
        measure_(session, request.options, request.evaluation, request.use, request.limits),
        search_({.counts = request.chooses_microbatches
                               ? microbatch_counts(session.layouts, request.options.batch_size)
                               : std::vector<int64_t>{request.options.microbatches},
                 .is_pipelined = session.layouts.pipeline.has_value(),
                 .measure = [this](const Recompute& recompute, int64_t microbatches) {
                   return measure_(recompute, microbatches).step;
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

  const RecomputeRequest& request_;
  StepMeasure measure_;
  RecomputeSearch search_;
};

}  // namespace

RecomputeChoice choose_recompute(const Session& session, const RecomputeRequest& request) {
  return Choice(session, request).run();
}

}  // namespace mtf
