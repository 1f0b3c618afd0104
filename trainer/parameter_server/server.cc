#include "trainer/parameter_server/server.h"

#include <fmt/format.h>

#include <map>
#include <memory>
#include <mutex>

#include "engine/backend/squares.h"
#include "engine/base/check.h"
#include "engine/base/signals.h"
#include "engine/comm/parameters/parameter_service.h"
#include "trainer/parameter_server/server_plan.h"
#include "trainer/report/progress.h"
#include "trainer/steps/stop.h"

namespace mtf {
namespace {

/// The variables of a server, and the program that updates them.
class ServerVariables final : public ParameterStorage {
 public:
  ServerVariables(const Session& session, const ParameterServerPlan& plan, int server)
      : ServerVariables(session, plan, server, build_server_graph(plan.weights, server, plan.update)) {}

  std::span<std::byte> variable(uint32_t id) override {
    const auto found = memory_.find(id);
    return found == memory_.end() ? std::span<std::byte>() : found->second;
  }
  void set_begin(uint32_t id, int64_t step) override { begins_->set(names_.at(id), step); }
  size_t gradients() const override { return gradients_.size(); }
  std::vector<PushedPart> pushed_parts(int worker) const override;
  void add(size_t gradient, std::span<const PushedTensors* const> workers) override;
  std::vector<double> squares() override;
  Outcome update(int64_t step, double rate_scale, double loss, std::span<const double> squares) override;

 private:
  ServerVariables(const Session& session, const ParameterServerPlan& plan, int server, ServerGraph graph);

  /// A gradient, which is summed in the memory of the update program's input.
  struct Sum {
    const GradientPlan* plan;
    bool is_split;
    struct Place {
      size_t worker, tensor;
    };
    std::vector<Place> parts;  ///< its parts among the tensors that each worker pushes
    std::byte* memory;
    std::vector<double> squares;  ///< one sum of squares, or one per block if the weight is split
  };
  void add_sum(const ParameterServerPlan::Gradient& gradient, bool is_split, std::vector<size_t>& pushed);

  bool asynchronous_;
  const std::shared_ptr<SlotBegins> begins_;  ///< those that `scalars_` read
  std::vector<StepScalar> scalars_;
  Program program_;
  VariableStore variables_;
  Executor update_;
  std::map<uint32_t, std::span<std::byte>> memory_;
  std::map<uint32_t, std::string> names_;
  std::vector<Sum> gradients_;  ///< gradients of this server
};

ServerVariables::ServerVariables(const Session& session, const ParameterServerPlan& plan, int server,
                                 ServerGraph graph)
    : asynchronous_(is_asynchronous(session.config)),
      begins_(plan.update.begins),
      scalars_(std::move(graph.scalars)),
      program_(partition(*graph.update, Layouts::single())),
      variables_(*session.backend, program_.mesh, program_.variables),
      update_(
          program_, *session.backend, variables_,
          {.threads = thread_count(session.config), .seed = static_cast<uint64_t>(session.config.run.seed)}) {
  for (const ServedVariable& v : plan.variables) {
    if (v.server != server) continue;
    memory_[v.id] = {variables_.slice(v.variable.name, 0), static_cast<size_t>(v.bytes())};
    names_[v.id] = v.variable.name;
  }
  std::vector<size_t> pushed(static_cast<size_t>(asynchronous_ ? 1 : worker_count(session.config)));
  for (const ParameterServerPlan::Gradient& gradient : plan.gradients) {
    if (gradient.server == server) add_sum(gradient, plan.is_split(gradient), pushed);
  }
}

/// `pushed` counts, by worker, the tensors so far.
void ServerVariables::add_sum(const ParameterServerPlan::Gradient& gradient, bool is_split,
                              std::vector<size_t>& pushed) {
  Sum sum{&gradient.plan, is_split, {}, update_.input(gradient.plan.output, 0), {}};
  MTF_CHECK(sum.memory != nullptr, "the update does not depend on `{}`", gradient.plan.output);
  sum.squares.resize(is_split ? static_cast<size_t>(squares_blocks(gradient.plan.shape.size())) : 1);
  for (const GradientSlice& slice : gradient.plan.slices) {
    for (const GradientPart& part : slice.parts) {
      const size_t worker = asynchronous_ ? 0 : static_cast<size_t>(part.worker);
      sum.parts.push_back({worker, pushed[worker]++});
    }
  }
  gradients_.push_back(std::move(sum));
}

std::vector<PushedPart> ServerVariables::pushed_parts(int worker) const {
  std::vector<PushedPart> parts;
  for (size_t i = 0; i < gradients_.size(); ++i) {
    const GradientPlan& plan = *gradients_[i].plan;
    for (const GradientSlice& slice : plan.slices) {
      for (const GradientPart& part : slice.parts) {
        if (asynchronous_ || part.worker == worker) parts.push_back({i, plan.bytes(slice, part)});
      }
    }
  }
  return parts;
}

void ServerVariables::add(size_t gradient, std::span<const PushedTensors* const> workers) {
  Sum& sum = gradients_[gradient];
  std::vector<const std::byte*> parts;
  for (const Sum::Place& place : sum.parts) parts.push_back((*workers[place.worker])[place.tensor].data());
  add_gradient(*sum.plan, parts, sum.memory);
  if (asynchronous_) return;  // the workers compute the sums of squares
  const int64_t count = sum.plan->shape.size();
  if (sum.is_split) {
    squares_of_blocks(sum.memory, sum.plan->dtype, count, sum.squares);
  } else {
    sum.squares[0] = sum_of_squares(sum.memory, sum.plan->dtype, count);
  }
}

std::vector<double> ServerVariables::squares() {
  std::vector<double> squares;
  for (const Sum& sum : gradients_) squares.insert(squares.end(), sum.squares.begin(), sum.squares.end());
  return squares;
}

ParameterStorage::Outcome ServerVariables::update(int64_t step, double rate_scale, double loss,
                                                  std::span<const double> squares) {
  for (const StepScalar& scalar : scalars_) {
    const double scale = scalar.is_rate ? rate_scale : 1;
    update_.feed_scalar(scalar.input, scale * scalar.value(step));
  }
  update_.feed_scalar("loss", loss);
  for (size_t i = 0; i < squares.size(); ++i) update_.feed_scalar(fmt::format("square/{}", i), squares[i]);
  update_.run(static_cast<uint64_t>(step));
  return {update_.scalar("grad_norm"), update_.scalar("finite") != 0};
}

ParameterServiceOptions service_options(const Session& session, const ParameterServerPlan& plan, int server) {
  const Config& config = session.config;
  ParameterServiceOptions options;
  options.server = server;
  options.workers = worker_count(config);
  options.asynchronous = is_asynchronous(config);
  options.batch_size = train_batch_size(config, session.layouts);
  options.max_staleness = parameter_servers(config)->max_staleness;
  options.diverges_after = diverges_after(config.train);
  options.squares = plan.squares;
  options.fields = plan.fields;
  options.connect_timeout = in_milliseconds(config.cluster.connect_timeout);
  options.collective_timeout = in_milliseconds(config.cluster.collective_timeout);
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
  // After a signal during a run the workers are notified and save first; a second signal ends the process at
  // once.
  const StopSignals signals;
  Progress progress{ProgressOptions{}};
  ServerVariables variables(session, *plan, server);
  ParameterServiceOptions options = service_options(session, *plan, server);
  std::mutex one_line;
  options.log = [&](const std::string& line) {
    const std::lock_guard lock(one_line);
    progress.info(fmt::format("parameter server {}: {}", server, line));
  };
  const Access access = cluster_access(config);
  ParameterService service(FramedListener(*address, access, kParameterPurpose, options.connect_timeout),
                           variables, options);
  if (const std::string warning = insecure_warning(access, to_string(*address)); !warning.empty())
    options.log(warning);
  options.log(fmt::format("listens at {}", to_string(*address)));
  if (server == 0) {
    for (const std::string& line : plan->places) progress.info(line);
  }
  options.log(service.serve() ? "the workers have left" : "stopped by a signal before the run began");
  return StopSignals::received() == 0 ? 0 : 128 + StopSignals::received();
}

}  // namespace mtf
