#include "trainer/steps/step_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>

#include "engine/base/check.h"
#include "engine/base/counted.h"
#include "trainer/session/feed.h"

namespace mtf {
namespace {

/// Steps whose program contains the update. If it has the input kProceed, a step is enqueued before the results
/// of the one before are known. After one that is not finite the device then changes nothing until the host
/// has noticed it and enqueues the following step again.
class LocalSteps final : public StepRunner {
 public:
  LocalSteps(const Session& session, Executor& executor, std::vector<StepScalar> scalars)
      : session_(session),
        executor_(executor),
        scalars_(std::move(scalars)),
        ahead_(executor.program().input(kProceed) == kNoValue ? 0 : 1) {
    for (const auto& [name, id] : executor.program().outputs) {
      const Shape& shape = executor.program().values[id].shape;
      if (shape.rank() > 0 && !name.starts_with("report/")) continue;
      names_.push_back(name);
      begins_.push_back(begins_.back() + static_cast<size_t>(shape.size()));
    }
    executor_.report(names_);
    if (ahead_ > 0) executor_.carry("finite", kProceed);
  }

  void start(const RunState& state, std::optional<int64_t> last_step) override {
    skipped_ = 0;
    begun_.clear();
    batches_.reset();
    batches_ = prefetch_batches(session_, executor_.program(), state, last_step, 1 + ahead_);
  }

  bool wait(std::chrono::milliseconds patience) override { return batches_->wait(patience); }

  const Batch* next(RunState&) override {
    const ProfileSpan span = wait_for_data(session_);
    return batches_->next();
  }

  int ahead() const override { return ahead_; }

  void run(const Batch& batch, const RunState& state) override {
    // Later steps take the value that the device carries over.
    begun_.push_back({&batch, state.step, state.rate_scale});
    run(begun_.back(), begun_.size() == 1);
  }

  void take_results() override {
    const std::span<const double> values = executor_.reported(static_cast<int>(begun_.size()) - 1);
    results_.assign(values.begin(), values.end());
    skipped_ = output("finite") != 0 ? 0 : skipped_ + 1;
  }

  int64_t skipped() const override { return skipped_; }
  double output(const std::string& name) const override { return results_[begins_[index_of(name)]]; }
  std::vector<double> elements(const std::string& name) const override {
    const size_t index = index_of(name);
    const auto at = [this](size_t begin) { return results_.begin() + static_cast<int64_t>(begin); };
    return {at(begins_[index]), at(begins_[index + 1])};
  }
  double loss() const override { return output("loss"); }
  double grad_norm() const override { return output("grad_norm"); }

  std::optional<NonFinite> first_non_finite(const RunState&) override {
    feed(begun_.front());
    return executor_.first_non_finite(static_cast<uint64_t>(begun_.front().number));
  }

  void count(RunState& state) override {
    ++state.step;
    if (executor_.program().output("tokens") != kNoValue) state.tokens += std::llround(output("tokens"));
    state.next_row = begun_.front().batch->next_row;
    begun_.pop_front();
    if (skipped_ == 0) return;
    for (size_t i = 0; i < begun_.size(); ++i) run(begun_[i], i == 0);
  }

  std::vector<std::string> report() override {
    const int64_t nodes = executor_.recorded_nodes();
    if (nodes == 0) return {};
    return {fmt::format("a step is recorded and replayed as {}", counted(nodes, "operation"))};
  }

 private:
  size_t index_of(const std::string& name) const {
    const auto found = std::ranges::find(names_, name);
    MTF_CHECK(found != names_.end(), "the step has no output `{}`", name);
    return static_cast<size_t>(found - names_.begin());
  }

  struct Step {
    const Batch* batch;
    int64_t number;  ///< of the steps before it
    double rate_scale;
  };

  void feed(const Step& step) {
    feed_batch(executor_, *session_.train_data, *step.batch);
    for (const StepScalar& scalar : scalars_) {
      const double scale = scalar.is_rate ? step.rate_scale : 1;
      executor_.feed_scalar(scalar.input, scale * scalar.value(step.number));
    }
  }

  /// `proceeds`: the results of all steps before are known.
  void run(const Step& step, bool proceeds) {
    feed(step);
    if (proceeds) executor_.feed_scalar(kProceed, 1);
    executor_.run(static_cast<uint64_t>(step.number));
  }

  const Session& session_;
  Executor& executor_;
  std::vector<StepScalar> scalars_;
  const int ahead_;
  std::vector<std::string> names_;    ///< the outputs that are reported
  std::vector<size_t> begins_ = {0};  ///< [names + 1]: where their elements begin in results_
  std::vector<double> results_;       ///< their elements, of the step whose results were taken last
  std::deque<Step> begun_;            ///< the steps that were run but not counted
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
          .seed = data_seed(config),
          .shuffle = config.data.shuffle,
          .start_row = row};
}

std::unique_ptr<Prefetcher> prefetch_batches(const Session& session, const Program& program,
                                             const RunState& state, std::optional<int64_t> last_step,
                                             int kept) {
  TrainingBatches batches = batches_from(session, state.next_row);
  if (last_step) batches.end_row = state.next_row + (*last_step - state.step) * batches.batch_size;
  return std::make_unique<Prefetcher>(
      BatchStream(session.train_data, batches, part_of(program, hosting_of(session.config))), 0,
      Prefetcher::kDepth, kept);
}

std::unique_ptr<StepRunner> local_steps(const Session& session, Executor& executor,
                                        std::vector<StepScalar> scalars) {
  return std::make_unique<LocalSteps>(session, executor, std::move(scalars));
}

}  // namespace mtf
