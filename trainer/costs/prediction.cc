#include "trainer/costs/prediction.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace mtf {
namespace {

/// The clocks of one process of each lane.
class Simulation {
 public:
  Simulation(int lanes, double step)
      : lanes_(static_cast<size_t>(lanes), Lane{.now = step}), done_(lanes_.size()) {
    result_.computing = result_.step = step;
  }

  StepPrediction run(const std::vector<ScheduleItem>& schedule) {
    take(schedule);
    for (const Lane& lane : lanes_)
      result_.seconds = std::max({result_.seconds, lane.now, lane.network_free});
    for (const Lane& lane : lanes_) {
      const double idle = lanes_.size() > 1 ? result_.seconds - lane.now : 0;
      result_.waiting += idle / static_cast<double>(lanes_.size());
    }
    return result_;
  }

 private:
  struct Lane {
    double now = 0, network_free = 0;
  };

  void take(const std::vector<ScheduleItem>& schedule) {
    for (const ScheduleItem& item : schedule) std::visit([this](const auto& kind) { take(kind); }, item);
  }

  void take(const ScheduledWork& work) {
    const auto [begin, end] = range(work.lane);
    for (size_t lane = begin; lane < end; ++lane) compute(lane, work.kind, work.seconds);
  }

  void take(const ScheduledStart& start) {
    const auto [begin, end] = range(start.lane);
    for (size_t lane = begin; lane < end; ++lane) send(lane, start);
  }

  /// A message needs the networks of the lane and of those to which it is sent.
  void send(size_t own, const ScheduledStart& start) {
    double from = 0;
    const auto visit = [&](const auto& each) {
      each(own);
      for (const int lane : start.to) each(static_cast<size_t>(lane));
    };
    visit([&](size_t lane) { from = std::max({from, lanes_[lane].now, lanes_[lane].network_free}); });
    visit([&](size_t lane) {
      lanes_[lane].network_free = done_[lane][start.message] = from + start.seconds;
      result_.sending += start.seconds / static_cast<double>(lanes_.size());
      compute(lane, WorkKind::kCollective, start.processor);
    });
  }

  void take(const ScheduledWait& wait) {
    for (size_t lane = 0; lane < lanes_.size(); ++lane) {
      double& now = lanes_[lane].now;
      double until = now;
      for (const int64_t message : wait.messages) {
        if (const auto done = done_[lane].find(message); done != done_[lane].end())
          until = std::max(until, done->second);
      }
      result_.waiting += (until - now) / static_cast<double>(lanes_.size());
      now = until;
    }
  }

  void take(const ScheduleLoop& loop) {
    const int64_t simulated = std::min(loop.times, kLongestLoop);
    StepPrediction before = result_;
    std::vector<Lane> from = lanes_;
    for (int64_t i = 0; i < simulated; ++i) {
      before = result_;
      from = lanes_;
      take(loop.body);
    }
    const auto left = static_cast<double>(loop.times - simulated);
    if (left <= 0) return;
    result_.computing += left * (result_.computing - before.computing);
    result_.waiting += left * (result_.waiting - before.waiting);
    result_.sending += left * (result_.sending - before.sending);
    for (size_t kind = 0; kind < kWorkKinds; ++kind)
      result_.kinds[kind] += left * (result_.kinds[kind] - before.kinds[kind]);
    for (size_t lane = 0; lane < lanes_.size(); ++lane) {
      lanes_[lane].now += left * (lanes_[lane].now - from[lane].now);
      lanes_[lane].network_free = std::max(lanes_[lane].network_free, lanes_[lane].now);
    }
  }

  void compute(size_t lane, WorkKind kind, double seconds) {
    const double share = seconds / static_cast<double>(lanes_.size());
    result_.computing += share;
    result_.kinds[static_cast<size_t>(kind)] += share;
    lanes_[lane].now += seconds;
  }

  /// The lane, or all of them.
  std::pair<size_t, size_t> range(std::optional<int> lane) const {
    if (!lane) return {0, lanes_.size()};
    return {static_cast<size_t>(*lane), static_cast<size_t>(*lane) + 1};
  }

  StepPrediction result_;
  std::vector<Lane> lanes_;
  std::vector<std::unordered_map<int64_t, double>> done_;  ///< by lane: when each message is received
};

}  // namespace

StepPrediction predict_step(const std::vector<ScheduleItem>& schedule, double step) {
  return Simulation(lanes_of(schedule), step).run(schedule);
}

std::string predicted_time_text(double seconds) {
  return seconds >= 1 ? fmt::format("{:.4g} s", seconds) : fmt::format("{:.4g} ms", seconds * 1e3);
}

CostModel cost_model_of(const Config& config, const Mesh& mesh, bool is_cuda, Diagnostics& diagnostics) {
  HardwareOptions hardware = config.machine.value_or(HardwareOptions());
  if (!config.machine && is_cuda) hardware.device.kind = DeviceKind::kCuda;
  const Hosting hosting = hosting_of(config);
  const int here = is_cuda ? 1 : config.launch.local_size;
  if (!config.machine) hardware.device.cores = int64_t{thread_count(config)} * here;
  const auto share = static_cast<int>(std::max<int64_t>(1, hardware.device.cores / here));
  Placement placement{.mesh = HostedMesh(mesh, {hosting.processes, 0}),
                      .threads = is_cuda ? 1 : static_cast<int>(config.run.threads.value.value_or(share)),
                      .processes_of_machine = here,
                      .overlaps = config.cluster.overlap,
                      .replicates = config.run.check_replicas};
  const bool joined = hosting.processes == 1 ||
                      (!hardware.links.empty() &&
                       hardware.links.back().processes.value_or(hosting.processes) >= hosting.processes);
  if (!joined) {
    diagnostics.error(config.mark("hardware"),
                      hardware.links.empty()
                          ? std::string("`hardware` has no link between processes")
                          : fmt::format("the links of `hardware` join {} processes, and the run has {}",
                                        *hardware.links.back().processes, hosting.processes),
                      "another entry of `hardware.links`, such as {bandwidth: 10e9, latency: 20e-6}");
  }
  return {std::move(hardware), std::move(placement)};
}

}  // namespace mtf
