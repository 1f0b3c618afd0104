#include "trainer/steps/stop.h"

#include <fmt/format.h>

#include "trainer/report/progress.h"

namespace mtf {

std::string reached_limit(const Session& session, const RunState& state) {
  const TrainOptions& train = session.config.train;
  if (train.steps && state.step >= *train.steps) return fmt::format("train.steps = {}", *train.steps);
  if (train.epochs && state.next_row >= rows_of_epochs(session))
    return fmt::format("train.epochs = {}", *train.epochs);
  if (train.time && state.seconds >= train.time->seconds)
    return fmt::format("train.time = {}", duration_text(train.time->seconds));
  if (!train.patience || state.worse_evaluations < train.patience->evaluations) return {};
  return fmt::format("train.patience: {} evaluations in a row without a better {} than {:.6g}",
                     state.worse_evaluations, train.patience->metric, state.best.value_or(0));
}

int64_t diverges_after(const TrainOptions& train) {
  return train.on_divergence == OnDivergence::kSkip ? 20 : 1;
}

void count_evaluation(const TrainOptions& train, const Metrics& evaluation, RunState& state) {
  if (!train.patience) return;
  for (const auto& [name, value] : evaluation) {
    if (name != train.patience->metric) continue;
    if (is_better(name, value, state.best)) {
      state.best = value;
      state.worse_evaluations = 0;
    } else {
      ++state.worse_evaluations;
    }
  }
}

}  // namespace mtf
