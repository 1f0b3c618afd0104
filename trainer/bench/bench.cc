#include "trainer/bench/bench.h"

#include <fmt/format.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/core_waits.h"
#include "engine/base/json.h"
#include "engine/base/median.h"
#include "engine/base/print_message.h"
#include "engine/base/seconds_since.h"
#include "trainer/bench/step_costs.h"
#include "trainer/checkpoint/restore.h"
#include "trainer/config/devices.h"
#include "trainer/costs/prediction.h"
#include "trainer/optimizer/averages.h"
#include "trainer/session/algorithm_file.h"
#include "trainer/session/device_notes.h"
#include "trainer/session/same_run.h"
#include "trainer/steps/step_runner.h"
#include "trainer/train/train_plan.h"

namespace mtf {
namespace {

/// Steps before the measurement: memory is touched for the first time, and a GPU chooses its kernels.
constexpr int kWarmUp = 3;

/// The training run that is measured.
class MeasuredRun {
 public:
  MeasuredRun(const Session& session, TrainPlan plan)
      : session_(session),
        plan_(std::move(plan)),
        algorithms_(tuned_by_file(session)),
        variables_(*session.backend, plan_.program.mesh, plan_.program.variables,
                   variable_store_options(session)),
        executor_(std::move(plan_.program), *session.backend, variables_, executor_options(session)),
        runner_(local_steps(session, executor_, plan_.step.scalars)) {
    const Config& config = session.config;
    variables_.initialize(static_cast<uint64_t>(config.run.seed));
    if (!config.checkpoint.init.path.empty()) initialize_weights(config.checkpoint.init, variables_);
    if (session.teacher) restore_constants(session.teacher->path, std::string(kTeacher) + "/", variables_);
    start_averages(variables_);
    runner_->start(state_, std::nullopt);
    run(kWarmUp);
  }

  const Program& program() const { return executor_.program(); }

  /// Runs steps and returns the seconds from the begin of each to that of the next. As in training, a device may still be
  /// computing one when the next begins.
  std::vector<double> run(int64_t steps) {
    std::vector<double> seconds;
    RunState begun = state_;
    for (int64_t i = 0; i < steps; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      const ProfileSpan span =
          span_on(session_.profile.get(), kMainTrack, "step", ProfileCategory::kStep, -1);
      const Batch* batch = runner_->next(begun);
      runner_->run(*batch, begun);
      ++begun.step;
      begun.next_row = batch->next_row;
      const int64_t ahead = i + 1 < steps ? runner_->ahead() : 0;
      while (begun.step - state_.step > ahead) {
        runner_->take_results();
        runner_->count(state_);
      }
      seconds.push_back(seconds_since(begin));
    }
    return seconds;
  }

  int64_t tokens() const { return state_.tokens; }

 private:
  const Session& session_;
  TrainPlan plan_;
  const std::unique_ptr<AlgorithmFile> algorithms_;
  VariableStore variables_;
  Executor executor_;
  std::unique_ptr<StepRunner> runner_;
  RunState state_;
};

/// The cost model of section `hardware`, with which a run is compared that does not run on it.
CostModel model_of(const Session& session, const Mesh& mesh, Diagnostics& diagnostics) {
  Config config = session.config;
  if (config.hardware) config.machine = load_hardware(*config.hardware, diagnostics);
  return cost_model_of(config, mesh, !session.backend->is_host(), diagnostics);
}

}  // namespace

void bench(Session& session, Diagnostics& diagnostics) {
  TrainPlan plan = make_train_plan(session, diagnostics);
  const CostModel model = model_of(session, plan.program.mesh, diagnostics);
  diagnostics.throw_if_errors();
  check_same_run(session, programs_of(plan));
  const DeviceNotes notes(session);
  MeasuredRun run(session, std::move(plan));
  const Config& config = session.config;
  const int64_t steps = config.bench.steps, tokens = run.tokens();
  const CoreWaits waits;
  MeasuredSteps measured{.steps = steps,
                         .seconds = median(run.run(steps)),
                         .examples = static_cast<double>(train_batch_size(config, session.layouts)),
                         .tokens = static_cast<double>(run.tokens() - tokens) / static_cast<double>(steps),
                         .threads = session.backend->is_host() ? static_cast<int>(thread_count(config)) : 1};
  session.profile->start();
  run.run(steps);
  session.profile->stop();
  const std::string disturbed = waits.description();
  if (!session.processes->is_first()) return;
  const StepCosts costs =
      step_costs(run.program(), *session.profile, measured, model, config.hardware.has_value());
  for (const Problem& warning : diagnostics.warnings()) print_message("{}\n", warning.to_string());
  if (!disturbed.empty()) print_message("warning: {}\n", disturbed);
  if (config.bench.format == BenchFormat::kJson) {
    fmt::print("{}\n", json_text(to_json(costs), 2));
  } else {
    fmt::print("{}", to_string(costs));
  }
}

}  // namespace mtf
