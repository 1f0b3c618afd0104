#include "trainer/memory/microbatches.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "trainer/memory/memory_check.h"
#include "trainer/report/progress.h"

namespace mtf {
namespace {

constexpr const char* kKey = "train.microbatches: auto is";

class Choice {
 public:
  Choice(const Session& session, TrainStepOptions options, const Program* evaluation, const MemoryUse& use)
      : session_(session),
        options_(std::move(options)),
        evaluation_(evaluation),
        use_(use),
        limits_(memory_limits(session)) {}

  MicrobatchChoice run(const std::optional<EarlierRecompute>& before) {
    const std::vector<int64_t> counts = microbatch_counts(session_.layouts, options_.batch_size);
    if (before && std::ranges::find(counts, before->microbatches) != counts.end() &&
        fits(before->microbatches))
      return {before->microbatches, fmt::format("{} {}, {}", kKey, before->microbatches, before->reason)};
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
  /// Returns the memory that the run needs; nullopt if the step cannot be built with so many microbatches.
  std::optional<RunMemory> need(int64_t count) {
    const auto [found, added] = needs_.emplace(count, std::nullopt);
    if (!added) return found->second;
    options_.microbatches = count;
    try {
      const TrainStep step = build_train_step(*session_.model, session_.train_data->features(), options_);
      batch_statistics_ = step.batch_statistics;
      Diagnostics diagnostics;
      check_layouts(*step.graph, session_.layouts, diagnostics);
      if (diagnostics.has_errors()) return std::nullopt;
      const Program program = compile(session_, *step.graph);
      std::vector<const Program*> programs{&program};
      if (evaluation_ != nullptr) programs.push_back(evaluation_);
      found->second = memory_need(session_, programs, use_);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kConfig) throw;
    }
    return found->second;
  }

  bool fits(int64_t count) {
    const std::optional<RunMemory> memory = need(count);
    return memory && mtf::fits(*memory, limits_);
  }

  /// Returns " (the run needs 1.2 GB and may take 2 GB: run.memory_limit)".
  std::string numbers(int64_t count) {
    const std::optional<RunMemory> memory = need(count);
    if (!memory) return {};
    const TightMemory tight = tightest(*memory, limits_);
    return fmt::format(" (the run needs {} and may take {}: {})", bytes_text(static_cast<double>(tight.need)),
                       bytes_text(static_cast<double>(tight.limit.bytes)), tight.limit.source);
  }

  const Session& session_;
  TrainStepOptions options_;
  const Program* evaluation_;
  const MemoryUse& use_;
  const MemoryLimits limits_;
  std::map<int64_t, std::optional<RunMemory>> needs_;  ///< by the number of microbatches
  std::vector<std::string> batch_statistics_;          ///< TrainStep::batch_statistics
};

}  // namespace

std::vector<int64_t> microbatch_counts(const Layouts& layouts, int64_t batch_size) {
  const int64_t parts = LayoutMap(layouts.mesh, layouts.activation).parts(std::string(kBatch));
  std::vector<int64_t> counts;
  for (int64_t n = 1; n <= batch_size / parts; ++n) {
    if (batch_size % n == 0 && batch_size / n % parts == 0) counts.push_back(n);
  }
  return counts;
}

MicrobatchChoice choose_microbatches(const Session& session, TrainStepOptions options,
                                     const Program* evaluation, const MemoryUse& use,
                                     const std::optional<EarlierRecompute>& before) {
  return Choice(session, std::move(options), evaluation, use).run(before);
}

}  // namespace mtf
