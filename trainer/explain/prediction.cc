#include "trainer/explain/prediction.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <unordered_map>

#include "engine/base/nearest.h"

namespace mtf {
namespace {

/// Iterations of a loop that are simulated one by one; those that are left take as long as the last of them.
constexpr int64_t kLongestLoop = 64;

class Simulation {
 public:
  explicit Simulation(const MachineRates& rates) : rates_(rates) {}

  StepPrediction run(const std::vector<ScheduleItem>& schedule) {
    for (const ScheduleItem& item : schedule) std::visit([this](const auto& kind) { take(kind); }, item);
    result_.seconds = std::max(now_, network_free_);
    return result_;
  }

 private:
  void take(const ScheduledWork& work) {
    const double seconds = work.flops / rates_.flops + work.bytes / rates_.memory;
    result_.computing += seconds;
    now_ += seconds;
  }

  void take(const ScheduledStart& start) {
    double slowest = std::numeric_limits<double>::infinity();
    for (size_t axis = 0; axis < rates_.links.size(); ++axis) {
      if (has_axis(start.axes, static_cast<int>(axis))) slowest = std::min(slowest, rates_.links[axis]);
    }
    const double from = std::max(now_, network_free_);
    network_free_ = from + rates_.latency + start.bytes_sent / slowest;
    done_[start.message] = network_free_;
    result_.sending += network_free_ - from;
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
    now_ += left * (now_ - from);
    network_free_ = std::max(network_free_, now_);
  }

  const MachineRates& rates_;
  StepPrediction result_;
  double now_ = 0, network_free_ = 0;
  std::unordered_map<int64_t, double> done_;  ///< when each message is received
};

}  // namespace

StepPrediction predict_step(const std::vector<ScheduleItem>& schedule, const MachineRates& rates) {
  return Simulation(rates).run(schedule);
}

MachineRates machine_rates(const Config& config, const Mesh& mesh, Diagnostics& diagnostics) {
  const RateOptions options = config.explain.rates.value_or(RateOptions());
  MachineRates rates{
      .flops = options.flops.value.value_or(config.run.peak_flops.value.value_or(RateOptions::kFlops)),
      .memory = options.memory,
      .links = std::vector<double>(static_cast<size_t>(mesh.rank()), RateOptions::kLinks),
      .latency = options.latency};
  if (const double* all = std::get_if<double>(&options.links)) {
    std::ranges::fill(rates.links, *all);
    return rates;
  }
  for (const auto& [name, rate] : std::get<config::Named<double>>(options.links)) {
    if (const std::optional<int> axis = mesh.shape().find(name)) {
      rates.links[static_cast<size_t>(*axis)] = rate;
      continue;
    }
    std::vector<std::string> names;
    for (const Dimension& d : mesh.shape()) names.push_back(d.name);
    diagnostics.error(
        config.mark("explain.rates.links." + name),
        fmt::format("`explain.rates.links` names `{}`, which is no dimension of the mesh", name),
        did_you_mean(name, names));
  }
  return rates;
}

}  // namespace mtf
