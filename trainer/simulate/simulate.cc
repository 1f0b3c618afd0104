#include "trainer/simulate/simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "engine/base/counted.h"
#include "engine/base/nearest.h"
#include "engine/core/random.h"

namespace mtf {
namespace {

/// So many stragglers are placed. One that is slow in each step is the last at all collectives of its groups; further ones
/// change little.
constexpr int64_t kMostPlaced = 4;

class Simulator {
 public:
  Simulator(const Session& session, const Explanation& explanation, Diagnostics& diagnostics)
      : session_(session),
        config_(session.config),
        options_(*session.config.simulate),
        explanation_(explanation),
        program_(explanation.step.program),
        diagnostics_(diagnostics) {}

  std::optional<SimulatedRun> run() {
    const size_t errors = diagnostics_.errors().size();
    const std::optional<int64_t> steps = planned_steps(session_);
    if (!config_.machine) {
      diagnostics_.error(config_.mark("simulate"),
                         "`simulate` needs `hardware`, on which it simulates the run",
                         "for example `hardware: h100_8x_nvlink_400g`, or a file that run.mode=calibrate has "
                         "written");
    }
    const bool knows_epochs = session_.train_data->has_examples();
    if (!steps) {
      diagnostics_.error(config_.mark("simulate"), "`simulate` needs the length of the run",
                         knows_epochs ? "`train.steps` or `train.epochs`"
                                      : "`train.steps` alone: how long an epoch is, is not known here");
    }
    const bool saves_by_epoch = config_.checkpoint.every.unit == config::Interval::Unit::kEpochs;
    if (saves_by_epoch && config_.checkpoint.every.value > 0 && !knows_epochs) {
      diagnostics_.error(
          config_.mark("checkpoint.every"),
          "`simulate` needs `checkpoint.every` in steps or as a time: how long an epoch is, is "
          "not known here",
          "for example `checkpoint.every: 1000`");
    }
    const std::optional<size_t> link = slow_link();
    if (session_.layouts.pipeline && !HostedMesh(program_.mesh, hosting_of(config_)).hosts_blocks()) {
      diagnostics_.error(
          config_.mark("simulate"),
          "`simulate` with the stages of a pipeline needs processes whose positions form a block of "
          "the mesh",
          "a process for each position");
    }
    if (diagnostics_.errors().size() > errors) return std::nullopt;

    model_.emplace(cost_model_of(config_, program_.mesh, !session_.backend->is_host(), diagnostics_));
    result_.processes = explanation_.processes.count;
    const int64_t per_machine = processes_of_machine();
    result_.machines = (result_.processes + per_machine - 1) / per_machine;
    simulate_step(link);
    find_checkpoint();
    plan_run(*steps);
    if (const int64_t checkpoints = *steps / result_.run.interval; checkpoints > kMostCheckpoints) {
      diagnostics_.error(config_.mark("simulate"),
                         fmt::format("a run of {} checkpoints takes too long to simulate",
                                     with_thousands(static_cast<double>(checkpoints))),
                         fmt::format("at most {}: a larger `checkpoint.every`, or fewer `train.steps`",
                                     with_thousands(static_cast<double>(kMostCheckpoints))));
      return std::nullopt;
    }
    simulate_runs();
    return std::move(result_);
  }

 private:
  /// The number of the slow link in `hardware.links`, if there is one.
  std::optional<size_t> slow_link() {
    if (!options_.slow_link || !config_.machine) return std::nullopt;
    const std::vector<LinkOptions>& links = config_.machine->links;
    const std::string& wanted = options_.slow_link->link;
    if (explanation_.processes.count == 1 || links.empty()) {
      diagnostics_.error(config_.mark("simulate.slow_link"),
                         "`simulate.slow_link`: the run has one process, which has no link", "leave it out");
      return std::nullopt;
    }
    if (wanted.empty()) return links.size() - 1;
    std::vector<std::string> names;
    for (size_t i = 0; i < links.size(); ++i) {
      if (links[i].name == wanted) return i;
      if (!links[i].name.empty()) names.push_back(links[i].name);
    }
    diagnostics_.error(config_.mark("simulate.slow_link.link"),
                       fmt::format("`simulate.slow_link`: `hardware` has no link named `{}`", wanted),
                       names.empty() ? "its links have no names: leave it out for the last of them"
                                     : did_you_mean(wanted, names));
    return std::nullopt;
  }

  int64_t processes_of_machine() const {
    const int64_t all = result_.processes;
    if (options_.processes_of_machine.value) return std::min(*options_.processes_of_machine.value, all);
    const HardwareOptions& hardware = model_->hardware();
    if (hardware.device.kind == DeviceKind::kCpu)
      return mtf::processes_of_machine(hardware, static_cast<int>(all));
    return hardware.links.empty() ? 1 : std::min(hardware.links[0].processes.value_or(all), all);
  }

  /// Draws `count` processes, and another one for the slow link as far as there is one.
  DisturbedProcesses place(int64_t count, bool has_slow_link) const {
    const PhiloxKey key = random_key("simulate/processes", static_cast<uint64_t>(options_.seed));
    const int64_t all = result_.processes;
    std::set<int64_t> taken;
    int64_t draws = 0;
    const auto draw = [&] {
      const double u = uniform_from_bits(random_bits(key, RandomStream::kSampling, 0, draws++));
      auto process = std::min(static_cast<int64_t>(u * static_cast<double>(all)), all - 1);
      while (std::ssize(taken) < all && !taken.insert(process).second) process = (process + 1) % all;
      return process;
    };
    DisturbedProcesses disturbed;
    if (has_slow_link) disturbed.slow_link = draw();
    for (int64_t i = 0; i < count; ++i) disturbed.stragglers.push_back(draw());
    return disturbed;
  }

  void simulate_step(std::optional<size_t> link) {
    const double of_step = model_->step_seconds();
    const std::vector<ScheduleItem>& schedule = explanation_.schedule;
    SlowCollectives slow;
    SimulatedStep& step = result_.step;
    if (link) {
      HardwareOptions hardware = model_->hardware();
      step.slow_link =
          hardware.links[*link].name.empty() ? fmt::format("link {}", *link + 1) : hardware.links[*link].name;
      hardware.links[*link].bandwidth *= options_.slow_link->bandwidth;
      slow = collectives_of(schedule_of(program_, CostModel(std::move(hardware), model_->placement())));
    }
    const HostedMesh& hosted = model_->placement().mesh;
    std::optional<int> stages;
    if (const std::optional<Pipeline>& pipeline = session_.layouts.pipeline)
      stages = pipeline->axis(program_.mesh);
    DisturbedProcesses disturbed = place(0, link.has_value());
    step.undisturbed = explanation_.prediction.seconds;
    step.processes = disturbed_step(schedule, slow, hosted, disturbed, of_step, stages);
    step.seconds = step.processes.seconds;
    if (!options_.stragglers) return;

    const StragglerOptions& stragglers = *options_.stragglers;
    const auto all = static_cast<double>(result_.processes);
    step.stragglers = std::max<int64_t>(1, std::llround(stragglers.share * all));
    step.slow_share = 1 - std::pow(1 - stragglers.probability, static_cast<double>(step.stragglers));
    const bool always = stragglers.probability == 1;
    const int64_t placed = always ? std::min(step.stragglers, kMostPlaced) : 1;
    disturbed = place(placed, link.has_value());
    disturbed.slowdown = stragglers.slowdown;
    step.processes = disturbed_step(schedule, slow, hosted, disturbed, of_step, stages);
    step.seconds += step.slow_share * (step.processes.seconds - step.seconds);
    if (!always) return;
    // Those that were not placed are like those that were.
    const int64_t others = std::min(step.stragglers - placed, step.processes.others.count);
    step.processes.stragglers.count += others;
    step.processes.others.count -= others;
  }

  void find_checkpoint() {
    const HostedMesh& first = model_->placement().mesh;
    const DType master = precision_of(config_).master;
    SimulatedCheckpoint& checkpoint = result_.checkpoint;
    double copied = 0;
    for (const ProgramVariable& v : program_.variables) {
      if (!v.variable.is_saved()) continue;
      const bool is_weight = v.variable.kind == Variable::Kind::kWeight;
      const auto written = static_cast<int64_t>(size_of(is_weight ? master : v.variable.dtype));
      const int64_t slice = slice_shape(v.variable.shape, v.layout, program_.mesh).size();
      const int64_t saved = first.first_held(v.layout.copies()) * slice;  // by the first process
      checkpoint.bytes += v.variable.shape.size() * written;
      checkpoint.process_bytes += saved * written;
      checkpoint.read_bytes += first.size_of(v.layout.copies()) * slice * written;
      copied += static_cast<double>(saved) * static_cast<double>(size_of(v.variable.dtype));
    }
    const CheckpointTimeOptions& times = options_.checkpoint;
    const double of_process = times.process_bandwidth.value_or(times.bandwidth);
    const auto transfer = [&](double all, int64_t process) {
      return std::max(all / times.bandwidth, static_cast<double>(process) / of_process);
    };
    const auto or_given = [](const config::Auto<config::Duration>& given, double seconds) {
      return given.value ? given.value->seconds : seconds;
    };
    const double all_read =
        static_cast<double>(checkpoint.read_bytes) * static_cast<double>(result_.processes);
    checkpoint.write =
        or_given(times.write, transfer(static_cast<double>(checkpoint.bytes), checkpoint.process_bytes));
    checkpoint.read = or_given(times.read, transfer(all_read, checkpoint.read_bytes));
    checkpoint.copy = or_given(times.copy, copy_seconds(copied));
  }

  /// The seconds of a copy of the variables: read and written on a core, or sent to the host.
  double copy_seconds(double bytes) const {
    const config::Auto<double>& given = options_.checkpoint.copy_bandwidth;
    if (given.value) return bytes / *given.value;
    if (is_on_device()) return bytes / model_->hardware().device.host_link;
    Work work;
    work.kind = WorkKind::kMovement;
    work.bytes = 2 * bytes;
    return model_->seconds(work, work.bytes);
  }
  bool is_on_device() const { return model_->hardware().device.kind == DeviceKind::kCuda; }

  void plan_run(int64_t steps) {
    LongRun& run = result_.run;
    const SimulatedCheckpoint& checkpoint = result_.checkpoint;
    run.steps = steps;
    run.step = result_.step.seconds;
    run.interval = std::clamp<int64_t>(configured_interval(steps), 1, steps);
    run.background = options_.checkpoint.background;
    run.pause = checkpoint.copy;
    run.write = checkpoint.write;
    if (is_on_device() && run.background) {  // the next step computes beside the copy, up to its first update
      const double beside = seconds_before_update(explanation_.schedule, model_->step_seconds());
      run.pause = std::max(0.0, checkpoint.copy - beside);
      run.write += checkpoint.copy - run.pause;
    }
    run.restart = options_.restart.seconds + checkpoint.read;
    const FailureRate& failures = options_.mean_time_between_failures;
    if (failures.run) run.mean_time_between_failures = failures.run->seconds;
    if (failures.machine) {
      run.mean_time_between_failures = failures.machine->seconds / static_cast<double>(result_.machines);
    }
  }

  /// checkpoint.every in steps.
  int64_t configured_interval(int64_t steps) const {
    const config::Interval& every = config_.checkpoint.every;
    if (every.value <= 0) return steps;
    double interval = every.value;
    if (every.unit == config::Interval::Unit::kSeconds) interval /= result_.run.step;
    if (every.unit == config::Interval::Unit::kEpochs)
      interval *= static_cast<double>(session_.train_data->examples()) /
                  static_cast<double>(explanation_.step.batch_size);
    return static_cast<int64_t>(std::min(std::ceil(interval - 1e-9), static_cast<double>(steps)));
  }

  void simulate_runs() {
    const Replicas replicas{options_.replicas, static_cast<uint64_t>(options_.seed)};
    LongRun run = result_.run;
    result_.replicas = options_.replicas;
    result_.runs = mtf::simulate_runs(run, replicas);
    if (!std::isfinite(run.mean_time_between_failures)) return;
    const int64_t best = best_interval(run, replicas);
    std::set<int64_t> intervals{run.interval, best};
    for (const double factor : {0.25, 0.5, 2.0, 4.0}) {
      const int64_t interval = std::llround(static_cast<double>(best) * factor);
      if (interval >= 1 && interval <= run.steps) intervals.insert(interval);
    }
    for (const int64_t interval : intervals) {
      run.interval = interval;
      result_.around.push_back({interval, mtf::simulate_runs(run, replicas)});
      if (interval == best && result_.around.back().runs.are_complete) result_.best = result_.around.back();
    }
  }

  const Session& session_;
  const Config& config_;
  const SimulateOptions& options_;
  const Explanation& explanation_;
  const Program& program_;
  Diagnostics& diagnostics_;
  std::optional<CostModel> model_;
  SimulatedRun result_;
};

}  // namespace

std::optional<SimulatedRun> simulate(const Session& session, const Explanation& explanation,
                                     Diagnostics& diagnostics) {
  return Simulator(session, explanation, diagnostics).run();
}

std::optional<ExplainedPart> simulated_part(const Session& session, const Explanation& explanation) {
  if (!session.config.simulate) return std::nullopt;
  Diagnostics diagnostics;
  const std::optional<SimulatedRun> simulated = simulate(session, explanation, diagnostics);
  diagnostics.throw_if_errors();
  return ExplainedPart{"simulation", to_text(*simulated), to_json(*simulated)};
}

}  // namespace mtf
