#include "trainer/costs/choose_microbatches.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "trainer/costs/measure_step.h"
#include "trainer/costs/recompute_search.h"
#include "trainer/memory/memory_check.h"
#include "trainer/memory/microbatches.h"
#include "trainer/report/progress.h"

namespace mtf {
namespace {

class MicrobatchSearch {
 public:
  MicrobatchSearch(const Session& session, TrainStepOptions options, const Program* evaluation,
                   const MemoryUse& use)
      : counts_(microbatch_counts(session.layouts, options.batch_size)),
        is_pipelined_(session.layouts.pipeline.has_value()),
        base_(options.recompute),
        measure_(session, std::move(options), evaluation, use,
                 planned_limits(session, memory_limits(session))),
        search_({.counts = counts_,
                 .chooses_layers = false,
                 .base = base_,
                 .is_pipelined = is_pipelined_,
                 .measure = [this](const Recompute& recompute, int64_t microbatches) {
                   return compiled(recompute, microbatches);
                 }}) {}

  MicrobatchChoice run(const std::optional<EarlierRecompute>& before) {
    if (before && std::ranges::find(counts_, before->microbatches) != counts_.end() &&
        search_.measure(before->microbatches, base_).trial.fits)
      return because(before->microbatches, ", {}", before->reason);
    const MeasuredStep* const best = search_.run();
    const int64_t found = best != nullptr ? best->trial.microbatches : counts_.back();
    if (!is_pipelined_ && found == 1 && best != nullptr)
      return because(1, ": the batch fits as a whole{}", numbers(1));
    if (best == nullptr && !batch_statistics_.empty())
      return because(counts_.front(), ", although the batch does not fit{}: more would change {}",
                     numbers(counts_.front()), batch_statistics_text(batch_statistics_));
    if (best == nullptr) return because(found, ": no number fits{}", numbers(found));
    if (!is_pipelined_) return because(found, ": fewer do not fit{}", numbers(found));
    return because(found, ": so the stages take the shortest time, {} a step predicted{}",
                   duration_text(best->trial.seconds), numbers(found));
  }

 private:
  MeasuredStep compiled(const Recompute& recompute, int64_t microbatches) {
    CompiledStep compiled = measure_(recompute, microbatches);
    if (!compiled.batch_statistics.empty()) batch_statistics_ = std::move(compiled.batch_statistics);
    if (compiled.step.is_legal) needs_.emplace(microbatches, compiled.tightest);
    return std::move(compiled.step);
  }

  template <class... Values>
  static MicrobatchChoice because(int64_t count, fmt::format_string<const Values&...> why,
                                  const Values&... values) {
    return {count, fmt::format("train.microbatches: auto is {}", count) + fmt::format(why, values...)};
  }

  /// Returns " (the run needs 1.2 GB and may take 2 GB: run.memory_limit)".
  std::string numbers(int64_t count) const {
    const auto known = needs_.find(count);
    if (known == needs_.end()) return {};
    const TightMemory& tight = known->second;
    return fmt::format(" (the run needs {} and may take {}: {})", bytes_text(static_cast<double>(tight.need)),
                       bytes_text(static_cast<double>(tight.limit.bytes)), tight.limit.source);
  }

  const std::vector<int64_t> counts_;
  const bool is_pipelined_;
  const Recompute base_;
  std::map<int64_t, TightMemory> needs_;       ///< by the number of microbatches
  std::vector<std::string> batch_statistics_;  ///< TrainStep::batch_statistics
  StepMeasure measure_;
  RecomputeSearch search_;
};

}  // namespace

MicrobatchChoice choose_microbatches(const Session& session, TrainStepOptions options,
                                     const Program* evaluation, const MemoryUse& use,
                                     const std::optional<EarlierRecompute>& before) {
  return MicrobatchSearch(session, std::move(options), evaluation, use).run(before);
}

}  // namespace mtf
