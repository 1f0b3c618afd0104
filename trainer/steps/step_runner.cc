#include "trainer/steps/step_runner.h"

#include <fmt/format.h>

#include <cmath>

#include "engine/base/counted.h"
#include "trainer/session/feed.h"

namespace mtf {
namespace {

class LocalSteps final : public StepRunner {
 public:
  LocalSteps(const Session& session, Executor& executor, std::vector<StepScalar> scalars)
      : session_(session), executor_(executor), scalars_(std::move(scalars)) {}

  void start(const RunState& state, std::optional<int64_t>) override {
    skipped_ = 0;
    batches_.reset();
    batches_ =
        std::make_unique<Prefetcher>(BatchStream(session_.train_data, batches_from(session_, state.next_row),
                                                 part_of(executor_.program(), hosting_of(session_.config))));
  }

  const Batch* next(RunState&) override {
    const ProfileSpan span = wait_for_data(session_);
    return batches_->next();
  }

  void run(const Batch& batch, const RunState& state) override {
    feed_batch(executor_, *session_.train_data, batch);
    for (const StepScalar& scalar : scalars_) {
      const double scale = scalar.input == kLearningRateInput ? state.rate_scale : 1;
      executor_.feed_scalar(scalar.input, scale * scalar.value(state.step));
    }
    executor_.run(static_cast<uint64_t>(state.step));
    skipped_ = executor_.scalar("finite") != 0 ? 0 : skipped_ + 1;
  }

  int64_t skipped() const override { return skipped_; }
  double loss() const override { return executor_.scalar("loss"); }
  double grad_norm() const override { return executor_.scalar("grad_norm"); }

  void count(const Batch& batch, RunState& state) override {
    ++state.step;
    if (executor_.program().output("tokens") != kNoValue)
      state.tokens += std::llround(executor_.scalar("tokens"));
    state.next_row = batch.next_row;
  }

  std::vector<std::string> report() override {
    const int64_t nodes = executor_.recorded_nodes();
    if (nodes == 0) return {};
    return {fmt::format("a step is recorded and replayed as {}", counted(nodes, "operation"))};
  }

 private:
  const Session& session_;
  Executor& executor_;
  std::vector<StepScalar> scalars_;
  std::unique_ptr<Prefetcher> batches_;
  int64_t skipped_ = 0;
};

}  // namespace

ProfileSpan wait_for_data(const Session& session) {
  return span_on(session.profile.get(), kMainTrack, "wait for data", ProfileCategory::kData);
}

TrainingBatches batches_from(const Session& session, int64_t row) {
  const Config& config = session.config;
  return {.batch_size = train_batch_size(config, session.layouts),
          .seed = static_cast<uint64_t>(config.data.seed.value_or(config.run.seed)),
          .shuffle = config.data.shuffle,
          .start_row = row};
}

std::unique_ptr<StepRunner> local_steps(const Session& session, Executor& executor,
                                        std::vector<StepScalar> scalars) {
  return std::make_unique<LocalSteps>(session, executor, std::move(scalars));
}

}  // namespace mtf
