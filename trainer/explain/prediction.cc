#include "trainer/explain/prediction.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace mtf {
namespace {

/// Iterations of a loop that are simulated one by one; those that are left take as long as the last of them.
constexpr int64_t kLongestLoop = 64;

class Simulation {
 public:
  explicit Simulation(double step) : now_(step) { result_.computing = step; }

  StepPrediction run(const std::vector<ScheduleItem>& schedule) {
    for (const ScheduleItem& item : schedule) std::visit([this](const auto& kind) { take(kind); }, item);
    result_.seconds = std::max(now_, network_free_);
    return result_;
  }

 private:
  void take(const ScheduledWork& work) { compute(work.kind, work.seconds); }

  void take(const ScheduledStart& start) {
    const double from = std::max(now_, network_free_);
    network_free_ = from + start.seconds;
    done_[start.message] = network_free_;
    result_.sending += start.seconds;
    compute(WorkKind::kCollective, start.processor);
  }

  void take(const ScheduledWait& wait) {
    double until = now_;
    for (const int64_t message : wait.messages) {
      if (const auto done = done_.find(message); done != done_.end()) until = std::max(until, done->second);
    }
    result_.waiting += until - now_;
    now_ = until;
  }

  void take(const ScheduleLoop& loop) {
    const int64_t simulated = std::min(loop.times, kLongestLoop);
    StepPrediction before = result_;
    double from = now_;
    for (int64_t i = 0; i < simulated; ++i) {
      before = result_;
      from = now_;
      run(loop.body);
    }
    const auto left = static_cast<double>(loop.times - simulated);
    if (left <= 0) return;
    result_.computing += left * (result_.computing - before.computing);
    result_.waiting += left * (result_.waiting - before.waiting);
    result_.sending += left * (result_.sending - before.sending);
    for (size_t kind = 0; kind < kWorkKinds; ++kind)
      result_.kinds[kind] += left * (result_.kinds[kind] - before.kinds[kind]);
    now_ += left * (now_ - from);
    network_free_ = std::max(network_free_, now_);
  }

  void compute(WorkKind kind, double seconds) {
    result_.computing += seconds;
    result_.kinds[static_cast<size_t>(kind)] += seconds;
    now_ += seconds;
  }

  StepPrediction result_;
  double now_ = 0, network_free_ = 0;
  std::unordered_map<int64_t, double> done_;  ///< when each message is received
};

}  // namespace

StepPrediction predict_step(const std::vector<ScheduleItem>& schedule, double step) {
  return Simulation(step).run(schedule);
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
