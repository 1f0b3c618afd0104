#include "engine/spmd/passes/pipeline_order.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "engine/base/check.h"

namespace mtf {
namespace {

/// The order of the tasks of one stage.
using StageOrder = std::vector<PipelineTask>;

/// Orders for S stages with R chunks each: chunk r * S + s is at the s-th stage.
class RegularOrders {
 public:
  RegularOrders(int stages, int rounds, int64_t microbatches, PipelineSchedule schedule)
      : stages_(stages), rounds_(rounds), microbatches_(microbatches), schedule_(schedule) {}

  StageOrder of(int stage) const {
    const int64_t passes = rounds_ * microbatches_;
    StageOrder order;
    int64_t forward = 0, backward = 0;
    while (forward < std::min(passes, passes_before_backward(stage)))
      order.push_back(task(stage, false, forward++));
    while (forward < passes) {
      order.push_back(task(stage, false, forward++));
      order.push_back(task(stage, true, backward++));
    }
    while (backward < passes) order.push_back(task(stage, true, backward++));
    return order;
  }

 private:
  int64_t passes_before_backward(int stage) const {
    if (schedule_ == PipelineSchedule::kGPipe) return rounds_ * microbatches_;
    const int64_t after = stages_ - 1 - stage;
    return rounds_ == 1 ? after : 2 * after + int64_t{rounds_ - 1} * stages_;
  }

  /// As many microbatches as there are stages pass through a chunk of the stage, then through its next one.
  PipelineTask task(int stage, bool is_backward, int64_t number) const {
    if (rounds_ == 1) return {stage, is_backward, number};
    const int64_t turn = int64_t{stages_} * rounds_, within = number % turn;
    const int round = static_cast<int>(within / stages_);
    return {(is_backward ? rounds_ - 1 - round : round) * stages_ + stage, is_backward,
            number / turn * stages_ + within % stages_};
  }

  int stages_, rounds_;
  int64_t microbatches_;
  PipelineSchedule schedule_;
};

/// Follows the tasks in time.
class Timeline {
 public:
  Timeline(const std::vector<int64_t>& stages, int64_t microbatches, const std::vector<ChunkMoments>& moments)
      : stages_(stages), moments_(moments), next_(stages.size()), ended_(stages.size()) {
    for (auto& of_chunk : ended_) of_chunk = {Ends(microbatches, kNever), Ends(microbatches, kNever)};
  }

  /// When the task can begin; kNever if it depends on one that has not been done.
  double ready(const PipelineTask& task) const {
    const auto chunk = static_cast<size_t>(task.chunk);
    double moment = free(task.chunk);
    if (task.is_backward) {
      moment = std::max(moment, end(chunk, false, task.microbatch));
      if (chunk + 1 < stages_.size()) moment = std::max(moment, end(chunk + 1, true, task.microbatch));
    } else if (chunk > 0) {
      moment = std::max(moment, end(chunk - 1, false, task.microbatch));
    }
    return moment;
  }
  /// The microbatch that comes next in a chunk.
  int64_t next(int chunk, bool is_backward) const { return next_[static_cast<size_t>(chunk)][is_backward]; }

  void run(PipelineTask task) {
    const auto chunk = static_cast<size_t>(task.chunk);
    task.begin = ready(task);
    MTF_CHECK(task.begin < kNever && next(task.chunk, task.is_backward) == task.microbatch,
              "chunk {} of a pipeline is out of turn", task.chunk);
    task.end = task.begin + moments_[chunk][task.is_backward];
    ended_[chunk][task.is_backward][static_cast<size_t>(task.microbatch)] = task.end;
    ++next_[chunk][task.is_backward];
    free_[stages_[chunk]] = task.end;
    tasks_.push_back(task);
  }
  std::vector<PipelineTask> take() {
    std::ranges::stable_sort(tasks_, {}, &PipelineTask::begin);
    return std::move(tasks_);
  }

  static constexpr double kNever = std::numeric_limits<double>::infinity();

 private:
  using Ends = std::vector<double>;  ///< by microbatch
  double free(int chunk) const {
    const auto found = free_.find(stages_[static_cast<size_t>(chunk)]);
    return found == free_.end() ? 0 : found->second;
  }
  double end(size_t chunk, bool is_backward, int64_t microbatch) const {
    return ended_[chunk][is_backward][static_cast<size_t>(microbatch)];
  }

  const std::vector<int64_t>& stages_;
  const std::vector<ChunkMoments>& moments_;
  std::vector<std::array<int64_t, 2>> next_;  ///< by chunk and direction
  std::vector<std::array<Ends, 2>> ended_;    ///< by chunk and direction
  std::map<int64_t, double> free_;            ///< by stage
  std::vector<PipelineTask> tasks_;
};

/// The stages in the order of the pipeline, if its chunks are at them in turn.
std::optional<std::vector<int64_t>> turns(const std::vector<int64_t>& stages) {
  const size_t count = std::set<int64_t>(stages.begin(), stages.end()).size();
  if (stages.size() % count != 0) return std::nullopt;
  const std::vector<int64_t> first(stages.begin(), stages.begin() + static_cast<std::ptrdiff_t>(count));
  if (std::set<int64_t>(first.begin(), first.end()).size() != count) return std::nullopt;
  for (size_t chunk = count; chunk < stages.size(); ++chunk) {
    if (stages[chunk] != first[chunk % count]) return std::nullopt;
  }
  return first;
}

void run_in_order(const std::vector<StageOrder>& orders, Timeline& timeline) {
  std::vector<size_t> done(orders.size());
  for (bool runs = true; runs;) {
    runs = false;
    for (size_t stage = 0; stage < orders.size(); ++stage) {
      for (; done[stage] < orders[stage].size(); ++done[stage]) {
        if (timeline.ready(orders[stage][done[stage]]) == Timeline::kNever) break;
        timeline.run(orders[stage][done[stage]]);
        runs = true;
      }
    }
  }
  for (size_t stage = 0; stage < orders.size(); ++stage)
    MTF_CHECK(done[stage] == orders[stage].size(), "stage {} of a pipeline waits for ever", stage);
}

/// A chunk has no more microbatches between its forward and backward pass than there are chunks from it on; with GPipe the
/// backward passes come after all forward passes.
void run_as_ready(const std::vector<int64_t>& stages, int64_t microbatches, PipelineSchedule schedule,
                  Timeline& timeline) {
  const auto chunks = static_cast<int>(stages.size());
  const auto is_allowed = [&](int chunk, bool is_backward) {
    const int64_t forward = timeline.next(chunk, false), backward = timeline.next(chunk, true);
    if (schedule == PipelineSchedule::kGPipe)
      return !is_backward || timeline.next(chunks - 1, false) == microbatches;
    return is_backward || forward - backward < chunks - chunk;
  };
  for (int64_t left = 2 * chunks * microbatches; left > 0; --left) {
    std::optional<std::tuple<double, bool, int64_t, int>> best;  // moment, forward, microbatch, chunk
    for (int chunk = 0; chunk < chunks; ++chunk) {
      for (const bool is_backward : {false, true}) {
        const int64_t microbatch = timeline.next(chunk, is_backward);
        if (microbatch == microbatches || !is_allowed(chunk, is_backward)) continue;
        const double moment = timeline.ready({chunk, is_backward, microbatch});
        const std::tuple candidate{moment, !is_backward, microbatch, chunk};
        if (moment < Timeline::kNever && (!best || candidate < *best)) best = candidate;
      }
    }
    MTF_CHECK(best, "a pipeline of {} chunks waits for ever", chunks);
    timeline.run({std::get<3>(*best), !std::get<1>(*best), std::get<2>(*best)});
  }
}

}  // namespace

std::vector<PipelineTask> pipeline_order(const std::vector<int64_t>& stages, int64_t microbatches,
                                         PipelineSchedule schedule,
                                         const std::vector<ChunkMoments>& moments) {
  Timeline timeline(stages, microbatches, moments);
  const std::optional<std::vector<int64_t>> in_turn = turns(stages);
  const int count = in_turn ? static_cast<int>(in_turn->size()) : 0;
  const int rounds = in_turn ? static_cast<int>(stages.size()) / count : 0;
  if (in_turn && (rounds == 1 || microbatches % count == 0)) {
    const RegularOrders regular(count, rounds, microbatches, schedule);
    std::vector<StageOrder> orders;
    for (int stage = 0; stage < count; ++stage) orders.push_back(regular.of(stage));
    run_in_order(orders, timeline);
  } else {
    run_as_ready(stages, microbatches, schedule, timeline);
  }
  return timeline.take();
}

double pipeline_bubble(const std::vector<int64_t>& stages, int64_t microbatches, PipelineSchedule schedule) {
  double busy = 0, end = 0;
  for (const PipelineTask& task :
       pipeline_order(stages, microbatches, schedule, std::vector<ChunkMoments>(stages.size(), {1, 2}))) {
    busy += task.end - task.begin;
    end = std::max(end, task.end);
  }
  return 1 - busy / (end * static_cast<double>(std::set<int64_t>(stages.begin(), stages.end()).size()));
}

}  // namespace mtf
