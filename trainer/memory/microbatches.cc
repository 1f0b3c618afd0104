#include "trainer/memory/microbatches.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <vector>

#include "trainer/memory/memory_check.h"
#include "trainer/report/progress.h"

namespace mtf {
namespace {

constexpr const char* kKey = "train.microbatches: auto is";

/// The most microbatches for each stage that are tried: with 16 S of them, S stages wait for less than a sixteenth of the time.
constexpr int64_t kMostForStage = 16;

class Choice {
 public:
  Choice(const Session& session, TrainStepOptions options, const Program* evaluation, const MemoryUse& use,
         const StepTime& time)
      : session_(session),
        options_(std::move(options)),
        evaluation_(evaluation),
        use_(use),
        time_(time),
        limits_(memory_limits(session)) {}

  MicrobatchChoice run(const std::optional<EarlierRecompute>& before) {
    const std::vector<int64_t> counts = microbatch_counts(session_.layouts, options_.batch_size);
    if (before && std::ranges::find(counts, before->microbatches) != counts.end() &&
        fits(before->microbatches))
      return {before->microbatches, fmt::format("{} {}, {}", kKey, before->microbatches, before->reason)};
    if (session_.layouts.pipeline) return for_stages(counts);
    if (fits(1)) return {1, fmt::format("{} 1: the batch fits as a whole{}", kKey, numbers(1))};
    if (!batch_statistics_.empty()) {
      return {1, fmt::format("{} 1, although the batch does not fit{}: more would change {}", kKey,
                             numbers(1), batch_statistics_text(batch_statistics_))};
    }
    const int64_t most = counts.back();
    if (fits(most)) {
      // Each of them is tried, since some layers cannot work on a batch of every size.
      for (size_t i = 1; i < counts.size(); ++i) {
        if (fits(counts[i]))
          return {counts[i], fmt::format("{} {}: fewer do not fit{}", kKey, counts[i], numbers(counts[i]))};
      }
    }
    return {most, fmt::format("{} {}: no number fits{}", kKey, most, numbers(most))};
  }

 private:
  /// A step that was compiled.
  struct Trial {
    RunMemory memory;
    double seconds = 0;  ///< with stages of a pipeline
  };

  /// Fewer microbatches are tried while they are faster: stages wait longer, but their operations are larger.
  MicrobatchChoice for_stages(const std::vector<int64_t>& counts) {
    std::optional<int64_t> best;
    for (auto count = counts.rbegin(); count != counts.rend(); ++count) {
      if (!trial(*count) || (!batch_statistics_.empty() && *count > 1)) continue;
      if (!fits(*count) || (best && trial(*count)->seconds >= trial(*best)->seconds)) break;
      best = *count;
    }
    const int64_t most = batch_statistics_.empty() ? counts.back() : 1;
    if (!best) return {most, fmt::format("{} {}: no number fits{}", kKey, most, numbers(most))};
    return {*best, fmt::format("{} {}: so the stages take the shortest time, {} a step predicted{}", kKey,
                               *best, duration_text(trial(*best)->seconds), numbers(*best))};
  }

  /// Nothing if the step cannot be built with so many microbatches.
  const std::optional<Trial>& trial(int64_t count) {
    const auto [found, added] = trials_.emplace(count, std::nullopt);
    if (!added) return found->second;
    options_.microbatches = count;
    try {
      const TrainStep step = build_train_step(*session_.model, session_.train_data->features(), options_);
      batch_statistics_ = step.batch_statistics;
      Diagnostics diagnostics;
      check_layouts(*step.graph, session_.layouts, diagnostics);
      if (diagnostics.has_errors()) return found->second;
      const Program program = compile(session_, *step.graph);
      std::vector<const Program*> programs{&program};
      if (evaluation_ != nullptr) programs.push_back(evaluation_);
      found->second =
          Trial{memory_need(session_, programs, use_), session_.layouts.pipeline ? time_(program) : 0};
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kConfig) throw;
    }
    return found->second;
  }

  bool fits(int64_t count) {
    const std::optional<Trial>& known = trial(count);
    return known && mtf::fits(known->memory, limits_);
  }

  /// Returns " (the run needs 1.2 GB and may take 2 GB: run.memory_limit)".
  std::string numbers(int64_t count) {
    const std::optional<Trial>& known = trial(count);
    if (!known) return {};
    const TightMemory tight = tightest(known->memory, limits_);
    return fmt::format(" (the run needs {} and may take {}: {})", bytes_text(static_cast<double>(tight.need)),
                       bytes_text(static_cast<double>(tight.limit.bytes)), tight.limit.source);
  }

  const Session& session_;
  TrainStepOptions options_;
  const Program* evaluation_;
  const MemoryUse& use_;
  const StepTime& time_;
  const MemoryLimits limits_;
  std::map<int64_t, std::optional<Trial>> trials_;  ///< by the number of microbatches
  std::vector<std::string> batch_statistics_;       ///< TrainStep::batch_statistics
};

}  // namespace

std::vector<int64_t> microbatch_counts(const Layouts& layouts, int64_t batch_size) {
  const int64_t parts = LayoutMap(layouts.mesh, layouts.activation).parts(std::string(kBatch));
  std::vector<int64_t> counts;
  for (int64_t n = 1; n <= batch_size / parts; ++n) {
    if (batch_size % n == 0 && batch_size / n % parts == 0) counts.push_back(n);
  }
  if (!layouts.pipeline) return counts;
  const int64_t stages = layouts.pipeline->stages(layouts.mesh), most = kMostForStage * stages;
  std::erase_if(counts, [most](int64_t n) { return n > most; });
  const auto is_in_turn = [stages](int64_t n) { return n % stages == 0; };
  if (layouts.pipeline->rounds > 1 && std::ranges::any_of(counts, is_in_turn))
    std::erase_if(counts, std::not_fn(is_in_turn));
  return counts;
}

MicrobatchChoice choose_microbatches(const Session& session, TrainStepOptions options,
                                     const Program* evaluation, const MemoryUse& use,
                                     const std::optional<EarlierRecompute>& before, const StepTime& time) {
  return Choice(session, std::move(options), evaluation, use, time).run(before);
}

}  // namespace mtf
