#include "trainer/parameter_server/server.h"

#include <fmt/format.h>

#include <map>
#include <mutex>

#include "engine/comm/parameters/parameter_service.h"
#include "trainer/parameter_server/plan.h"
#include "trainer/report/progress.h"
#include "trainer/signals.h"

namespace mtf {
namespace {

/// The variables of a server, and the programs that update them.
class ServerVariables final : public ParameterStorage {
 public:
  ServerVariables(const Session& session, const ParameterServerPlan& plan, int server)
      : ServerVariables(session, plan, server, build_server_graphs(plan.weights, server, plan.update)) {}

  std::span<std::byte> variable(uint32_t id) override {
    const auto found = memory_.find(id);
    return found == memory_.end() ? std::span<std::byte>() : found->second;
  }
  std::vector<size_t> pushed_bytes(int worker) const override;
  void add(const std::vector<const PushedTensors*>& workers) override;
  std::vector<double> squares() override;
  Outcome update(int64_t step, double rate_scale, double loss, std::span<const double> squares) override;

 private:
  ServerVariables(const Session& session, const ParameterServerPlan& plan, int server, ServerGraphs graphs);

  bool asynchronous_;
  std::vector<StepScalar> scalars_;
  size_t own_gradients_;
  Program program_;
  VariableStore variables_;
  Executor update_;
  std::optional<Executor> squares_;
  std::map<uint32_t, std::span<std::byte>> memory_;
  std::vector<const GradientPlan*> gradients_;  ///< of this server's weights
  std::vector<std::byte> sum_;
};

ServerVariables::ServerVariables(const Session& session, const ParameterServerPlan& plan, int server,
                                 ServerGraphs graphs)
    : asynchronous_(is_asynchronous(session.config)),
      scalars_(std::move(graphs.scalars)),
      own_gradients_(graphs.gradients),
      program_(partition(*graphs.update, Layouts::single())),
      variables_(*session.backend, program_.mesh, program_.variables),
      update_(program_, *session.backend, variables_, {.threads = thread_count(session.config)}) {
  if (own_gradients_ > 0) {
    squares_.emplace(partition(*graphs.squares, Layouts::single()), *session.backend, variables_,
                     ExecutorOptions{.threads = thread_count(session.config)});
  }
  for (const ServedVariable& v : plan.variables) {
    if (v.server != server) continue;
    const auto bytes = static_cast<size_t>(v.variable.shape.size()) * size_of(v.variable.dtype);
    memory_[v.id] = {variables_.slice(v.variable.name, 0), bytes};
  }
  for (const GradientPlan& gradient : plan.gradients) {
    if (plan.server_of(gradient.variable) == server) gradients_.push_back(&gradient);
  }
}

std::vector<size_t> ServerVariables::pushed_bytes(int worker) const {
  std::vector<size_t> bytes;
  for (const GradientPlan* gradient : gradients_) {
    for (const GradientSlice& slice : gradient->slices) {
      for (const GradientPart& part : slice.parts) {
        if (asynchronous_ || part.worker == worker) bytes.push_back(gradient->bytes(part));
      }
    }
  }
  return bytes;
}

void ServerVariables::add(const std::vector<const PushedTensors*>& workers) {
  std::vector<size_t> next(workers.size());
  for (const GradientPlan* gradient : gradients_) {
    std::vector<const std::byte*> parts;
    for (const GradientSlice& slice : gradient->slices) {
      for (const GradientPart& part : slice.parts) {
        const size_t worker = asynchronous_ ? 0 : static_cast<size_t>(part.worker);
        parts.push_back((*workers[worker])[next[worker]++].data());
      }
    }
    sum_.resize(static_cast<size_t>(gradient->shape.size()) * size_of(gradient->dtype));
    add_gradient(*gradient, parts, sum_);
    update_.feed(gradient->output, sum_.data());
    if (!asynchronous_) squares_->feed(gradient->output, sum_.data());
  }
}

std::vector<double> ServerVariables::squares() {
  if (!squares_) return {};
  squares_->run(0);
  std::vector<double> squares;
  for (size_t i = 0; i < own_gradients_; ++i)
    squares.push_back(squares_->scalar(fmt::format("square/{}", i)));
  return squares;
}

ParameterStorage::Outcome ServerVariables::update(int64_t step, double rate_scale, double loss,
                                                  std::span<const double> squares) {
  for (const StepScalar& scalar : scalars_) {
    const double scale = scalar.input == kLearningRateInput ? rate_scale : 1;
    update_.feed_scalar(scalar.input, scale * scalar.value(step));
  }
  update_.feed_scalar("loss", loss);
  for (size_t i = 0; i < squares.size(); ++i) update_.feed_scalar(fmt::format("square/{}", i), squares[i]);
  update_.run(static_cast<uint64_t>(step));
  return {update_.scalar("grad_norm"), update_.scalar("finite") != 0};
}

ParameterServiceOptions service_options(const Session& session, const ParameterServerPlan& plan, int server) {
  const Config& config = session.config;
  const auto milliseconds = [](const config::Duration& time) {
    return std::chrono::milliseconds(static_cast<int64_t>(time.seconds * 1000));
  };
  ParameterServiceOptions options;
  options.server = server;
  options.workers = worker_count(config);
  options.asynchronous = is_asynchronous(config);
  options.batch_size = train_batch_size(config, session.layouts);
  options.max_staleness = parameter_servers(config)->max_staleness;
  options.squares = plan.gradients.size();
  options.fields = plan.fields;
  options.connect_timeout = milliseconds(config.cluster.connect_timeout);
  options.collective_timeout = milliseconds(config.cluster.collective_timeout);
  options.prepare_thread = [&session] { session.backend->prepare_thread(); };
  options.stop_signal = StopSignals::received;
  return options;
}

}  // namespace

int serve_parameters(Session& session, Diagnostics& diagnostics) {
  const std::optional<ParameterServerPlan> plan = plan_parameter_servers(session, diagnostics);
  diagnostics.throw_if_errors();
  const Config& config = session.config;
  const int server = config.launch.task;
  const std::optional<HostPort> address = parse_host_port(server_addresses(config)[server]);
  // Where a run is in hand the workers are told, and save first; a second signal ends this process at once.
  const StopSignals signals;
  Progress progress{ProgressOptions{}};
  ServerVariables variables(session, *plan, server);
  ParameterServiceOptions options = service_options(session, *plan, server);
  std::mutex one_line;
  options.log = [&](const std::string& line) {
    const std::lock_guard lock(one_line);
    progress.info(fmt::format("parameter server {}: {}", server, line));
  };
  int64_t bytes = 0, count = 0;
  for (const ServedVariable& v : plan->variables) {
    if (v.server != server) continue;
    ++count;
    bytes += v.variable.shape.size() * static_cast<int64_t>(size_of(v.variable.dtype));
  }
  ParameterService service(FramedListener(address->port, address->is_loopback()), variables, options);
  options.log(fmt::format("{} variables, {:.1f} MB, at {}", count, static_cast<double>(bytes) / 1e6,
                          to_string(*address)));
  options.log(service.serve() ? "the workers have left" : "stopped by a signal before the run began");
  return StopSignals::received() == 0 ? 0 : 128 + StopSignals::received();
}

}  // namespace mtf
