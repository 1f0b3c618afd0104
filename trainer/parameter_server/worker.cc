#include "trainer/parameter_server/worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "engine/backend/squares.h"
#include "engine/base/signals.h"
#include "trainer/optimizer/averages.h"
#include "trainer/report/progress.h"
#include "trainer/session/feed.h"
#include "trainer/session/profiler.h"
#include "trainer/steps/stop.h"

namespace mtf {
namespace {

ParameterClientOptions client_options(const Session& session, const ParameterServerPlan& plan) {
  const Config& config = session.config;
  return {.servers = server_addresses(config),
          .access = cluster_access(config),
          .worker = config.launch.rank,
          .fields = plan.fields,
          .connect_timeout = in_milliseconds(config.cluster.connect_timeout),
          .collective_timeout = in_milliseconds(config.cluster.collective_timeout)};
}

/// The common part of synchronous and asynchronous workers.
class WorkerSteps : public StepRunner {
 public:
  WorkerSteps(const Session& session, const ParameterServerPlan& plan, Executor& executor,
              VariableStore& variables)
      : session_(session),
        plan_(plan),
        executor_(executor),
        variables_(variables),
        rank_(session.config.launch.rank),
        client_(client_options(session, plan)) {}

  void start(const RunState& state, std::optional<int64_t> last_step) override {
    if (rank_ == 0) {
      set_variables(state, last_step);
    } else {
      client_.await_start();
    }
    pull(state.step, is_weight);
    skipped_ = 0;
  }
  int64_t skipped() const override { return skipped_; }
  double loss() const override { return loss_; }
  double grad_norm() const override { return grad_norm_; }
  double output(const std::string& name) const override { return executor_.scalar(name); }
  std::vector<double> elements(const std::string& name) const override { return executor_.elements(name); }
  void take_results() override {}
  void leave() override { client_.leave(); }

 protected:
  using Filter = std::function<bool(const Variable&)>;
  static bool is_weight(const Variable& variable) { return variable.kind == Variable::Kind::kWeight; }
  static bool is_evaluated(const Variable& variable) { return is_weight(variable) || is_average(variable); }
  static bool is_any(const Variable&) { return true; }
  static bool is_none(const Variable&) { return false; }

  void set_variables(const RunState& state, std::optional<int64_t> last_step);
  PulledState pull(int64_t version, const Filter& wanted);
  void compute(const Batch& batch, uint64_t step);
  void push(int64_t version);
  int64_t tokens() const;
  ProfileSpan communication_span(std::string_view name) const {
    return span_on(session_.profile.get(), kMainTrack, name, ProfileCategory::kCommunication);
  }

  const Session& session_;
  const ParameterServerPlan& plan_;
  Executor& executor_;
  VariableStore& variables_;
  const int rank_;
  ParameterClient client_;
  int64_t skipped_ = 0;
  double loss_ = 0;
  double grad_norm_ = 0;

 private:
  std::vector<std::byte> buffer_;
};

void WorkerSteps::set_variables(const RunState& state, std::optional<int64_t> last_step) {
  for (const ServedVariable& v : plan_.variables) {
    const HostTensor whole = variables_.get(v.variable.name);
    client_.set(
        v.server, v.id,
        std::span(whole.bytes).subspan(static_cast<size_t>(v.first_byte()), static_cast<size_t>(v.bytes())),
        state.slot_begins->of(v.variable.name));
  }
  client_.start({.step = state.step,
                 .next_row = state.next_row,
                 .last_step = last_step.value_or(-1),
                 .tokens = state.tokens,
                 .rate_scale = state.rate_scale});
}

/// Pulls the wanted variables that this process has. A variable that is stored once, whole and on the host is
/// received in place. A stop signal that a server received is passed on to this process.
PulledState WorkerSteps::pull(int64_t version, const Filter& wanted) {
  std::vector<PulledVariable> pulled;
  std::map<std::string, HostTensor> staged;
  for (const ServedVariable& v : plan_.variables) {
    const std::string& name = v.variable.name;
    if (!wanted(v.variable) || !variables_.contains(name)) continue;
    const Variable& whole = variables_.variable(name);
    const auto slices = variables_.slices(name);
    const bool lies_whole =
        slices.size() == 1 && slices[0].shape == whole.shape && slices[0].backend->is_host();
    std::byte* memory = lies_whole
                            ? slices[0].data
                            : staged.try_emplace(name, whole.shape, whole.dtype).first->second.bytes.data();
    pulled.push_back({v.server, v.id, {memory + v.first_byte(), static_cast<size_t>(v.bytes())}});
  }
  const ProfileSpan span = communication_span("pull");
  const PulledState state = client_.pull(version, pulled);
  if (state.stop_signal != 0) StopSignals::receive(static_cast<int>(state.stop_signal));
  for (const auto& [name, value] : staged) variables_.set(name, value);
  return state;
}

void WorkerSteps::compute(const Batch& batch, uint64_t step) {
  feed_batch(executor_, *session_.train_data, batch);
  executor_.run(step);
}

void WorkerSteps::push(int64_t version) {
  const ProfileSpan span = communication_span("push");
  std::vector<uint32_t> pushed(static_cast<size_t>(client_.servers()));
  const bool asynchronous = is_asynchronous(session_.config);
  for (const auto& [server, weight, plan] : plan_.gradients) {
    for (const GradientSlice& slice : plan.slices) {
      for (const GradientPart& part : slice.parts) {
        if (!asynchronous && part.worker != rank_) continue;
        client_.push(server, pushed[server]++, version, pushed_part(executor_, plan, slice, part, buffer_));
      }
    }
  }
}

int64_t WorkerSteps::tokens() const {
  if (executor_.program().output("tokens") == kNoValue) return 0;
  return std::llround(executor_.scalar("tokens"));
}

class SynchronousSteps final : public WorkerSteps {
 public:
  using WorkerSteps::WorkerSteps;

  void start(const RunState& state, std::optional<int64_t> last_step) override {
    WorkerSteps::start(state, last_step);
    at_ = state.step;
    batches_.reset();
    batches_ = prefetch_batches(session_, executor_.program(), state, last_step);
  }
  bool wait(std::chrono::milliseconds patience) override { return batches_->wait(patience); }
  const Batch* next(RunState&) override {
    const ProfileSpan span = wait_for_data(session_);
    return batches_->next();
  }

  void run(const Batch& batch, const RunState& state) override {
    compute(batch, static_cast<uint64_t>(state.step));
    next_row_ = batch.next_row;
    push(state.step);
    if (rank_ == 0) update(state.step);
    const PulledState pulled = pull(state.step + 1, is_weight);
    skipped_ = pulled.finite != 0 ? 0 : skipped_ + 1;
    loss_ = executor_.scalar("loss");
    grad_norm_ = pulled.grad_norm;
  }

  std::optional<NonFinite> first_non_finite(const RunState& state) override {
    return executor_.first_non_finite(static_cast<uint64_t>(state.step));
  }

  void count(RunState& state) override {
    ++state.step;
    state.tokens += tokens();
    state.next_row = next_row_;
    at_ = state.step;
  }

  void fetch_weights() override { pull(at_, is_evaluated); }
  void hold(RunState& state) override { pull(state.step, rank_ == 0 ? is_any : is_evaluated); }

 private:
  void update(int64_t step);

  std::unique_ptr<Prefetcher> batches_;
  int64_t next_row_ = 0;  ///< after the last step that was run
  int64_t at_ = 0;
};

/// Requests the sums of squares from the servers and adds them in the order in which a single server would.
void SynchronousSteps::update(int64_t step) {
  const std::vector<std::vector<double>> by_server = client_.squares(step);
  std::vector<size_t> next(by_server.size());
  std::vector<double> squares;
  std::optional<size_t> last;
  for (const ParameterServerPlan::Gradient& gradient : plan_.gradients) {
    if (last != gradient.weight) squares.push_back(0);
    last = gradient.weight;
    int64_t count = plan_.is_split(gradient) ? squares_blocks(gradient.plan.shape.size()) : 1;
    for (; count > 0; --count) squares.back() += by_server[gradient.server].at(next[gradient.server]++);
  }
  client_.update({.step = step, .loss = executor_.scalar("loss"), .tokens = tokens()}, squares);
}

class AsynchronousSteps final : public WorkerSteps {
 public:
  using WorkerSteps::WorkerSteps;

  const Batch* next(RunState& state) override {
    const ProfileSpan span = wait_for_data(session_);
    const DealtBatch dealt = client_.next();
    state.step = std::max(state.step, dealt.step);
    if (dealt.row >= 0) return read(dealt.row);
    take(dealt, state);
    pull(0, is_none);  // the run may end because a server received a signal
    return nullptr;
  }

  void run(const Batch& batch, const RunState&) override {
    pull(0, is_weight);
    number_ = (batch.next_row - 1) / train_batch_size(session_.config, session_.layouts);
    compute(batch, static_cast<uint64_t>(number_));
    push(0);
    std::vector<double> squares;
    for (size_t i = 0; i < plan_.squares; ++i)
      squares.push_back(executor_.scalar(fmt::format("square/{}", i)));
    loss_ = executor_.scalar("loss");
    committed_ = client_.commit({.loss = loss_, .tokens = tokens()}, squares);
    skipped_ = committed_.skipped;
    grad_norm_ = committed_.grad_norm;
    has_outputs_ = true;
  }
  bool has_outputs() const override { return has_outputs_; }
  std::optional<NonFinite> first_non_finite(const RunState&) override {
    return executor_.first_non_finite(static_cast<uint64_t>(number_));
  }

  void count(RunState& state) override {
    state.step = committed_.step + 1;
    state.next_row = committed_.next_row;
    state.tokens = committed_.tokens;
  }

  void fetch_weights() override { pull(0, is_evaluated); }
  void hold(RunState& state) override;
  void release() override { client_.resume(); }
  Metrics metrics() override;
  std::vector<std::string> report() override;

 private:
  const Batch* read(int64_t row) {
    const BatchStream stream(session_.train_data, batches_from(session_, row));
    if (!batch_) batch_ = stream.make_batch();
    stream.read(0, *batch_);
    return &*batch_;
  }

  /// Takes the state of the run from server 0; other workers have made the last updates.
  void take(const DealtBatch& at, RunState& state) {
    state.step = at.step;
    state.next_row = at.next_row;
    state.tokens = at.tokens;
    loss_ = at.loss;
    grad_norm_ = at.grad_norm;
    has_outputs_ = has_outputs_ && at.step == committed_.step + 1;
  }

  std::optional<Batch> batch_;
  int64_t number_ = 0;  ///< number of the batch from the beginning of the stream
  Committed committed_;
  bool has_outputs_ = false;     ///< the last update is the one that this worker has committed last
  std::vector<int64_t> logged_;  ///< histogram of staleness at the last log line
};

/// A barrier: waits until no worker has a batch. The batches of lost workers are processed here.
void AsynchronousSteps::hold(RunState& state) {
  DealtBatch at = client_.pause();
  for (; at.row >= 0; at = client_.pause()) run(*read(at.row), state);
  take(at, state);
  pull(0, is_any);
}

Metrics AsynchronousSteps::metrics() {
  const std::vector<int64_t> updates = client_.staleness().updates;
  int64_t count = 0, sum = 0, most = 0;
  for (size_t i = 0; i < updates.size(); ++i) {
    const int64_t since = updates[i] - (i < logged_.size() ? logged_[i] : 0);
    count += since;
    sum += since * static_cast<int64_t>(i);
    if (since > 0) most = static_cast<int64_t>(i);
  }
  logged_ = updates;
  const double mean = count > 0 ? static_cast<double>(sum) / static_cast<double>(count) : 0;
  return {{"staleness_mean", mean}, {"staleness_max", static_cast<double>(most)}};
}

std::vector<std::string> AsynchronousSteps::report() {
  const StalenessReport report = client_.staleness();
  std::vector<std::string> counts;
  for (size_t i = 0; i < report.updates.size(); ++i) {
    if (report.updates[i] > 0) counts.push_back(fmt::format("{}: {}", i, report.updates[i]));
  }
  std::vector<std::string> lines;
  if (!counts.empty()) lines.push_back(fmt::format("updates by staleness: {}", fmt::join(counts, ", ")));
  if (report.dealt_again > 0)
    lines.push_back(fmt::format("batches of lost workers that others did: {}", report.dealt_again));
  return lines;
}

}  // namespace

std::unique_ptr<StepRunner> steps_with_servers(const Session& session, const ParameterServerPlan& plan,
                                               Executor& executor, VariableStore& variables) {
  if (is_asynchronous(session.config))
    return std::make_unique<AsynchronousSteps>(session, plan, executor, variables);
  return std::make_unique<SynchronousSteps>(session, plan, executor, variables);
}

int work_asynchronously(Session& session, Diagnostics& diagnostics) {
  const std::optional<ParameterServerPlan> plan = plan_parameter_servers(session, diagnostics);
  diagnostics.throw_if_errors();
  VariableStore variables(*session.backend, plan->program.mesh, plan->program.variables,
                          variable_store_options(session));
  variables.initialize(static_cast<uint64_t>(session.config.run.seed));
  Executor executor(plan->program, *session.backend, variables, executor_options(session));
  AsynchronousSteps steps(session, *plan, executor, variables);
  Progress progress{ProgressOptions{}};
  const std::string name = fmt::format("worker {}", session.config.launch.rank);
  progress.info(fmt::format("{} of {}, asynchronous", name, worker_count(session.config)));
  const StopSignals signals;
  RunState state;
  steps.start(state, {});
  Profiler profiler(session, [&](const std::string& line) { progress.info(line); });
  int64_t done = 0;
  while (StopSignals::received() == 0) {
    profiler.begin_step();
    const ProfileSpan span =
        span_on(session.profile.get(), kMainTrack, "step", ProfileCategory::kStep, done + 1);
    const Batch* batch = steps.next(state);
    if (batch == nullptr) break;
    steps.run(*batch, state);
    if (steps.skipped() > 0) {
      const std::string what = fmt::format("{}: the loss of a batch is {} and the norm of its gradients {}",
                                           name, steps.loss(), steps.grad_norm());
      if (steps.skipped() >= diverges_after(session.config.train)) throw Error(ErrorKind::kDiverged, what);
      progress.warning(what + "; the step is skipped");
    }
    ++done;
  }
  profiler.finish();
  steps.leave();
  progress.info(fmt::format("{} leaves after {} batches", name, done));
  return StopSignals::received() == 0 ? 0 : 128 + StopSignals::received();
}

}  // namespace mtf
