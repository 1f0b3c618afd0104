#include "trainer/simulate/disturbed_step.h"

#include <algorithm>
#include <map>

#include "trainer/costs/prediction.h"
#include "trainer/simulate/process_classes.h"

namespace mtf {
namespace {

std::vector<int64_t> all_disturbed(const DisturbedProcesses& disturbed) {
  std::vector<int64_t> processes = disturbed.stragglers;
  if (disturbed.slow_link) processes.push_back(*disturbed.slow_link);
  return processes;
}

class StepSimulation {
 public:
  StepSimulation(const SlowCollectives& slow, const HostedMesh& hosted, const DisturbedProcesses& disturbed,
                 double step, const std::optional<int>& stages)
      : slow_(slow), classes_(hosted, all_disturbed(disturbed), stages) {
    processes_.resize(static_cast<size_t>(classes_.size()));
    for (size_t c = 0; c < processes_.size(); ++c)
      processes_[c].lane = classes_.lane(static_cast<int64_t>(c));
    has_lanes_ = std::ranges::any_of(processes_, [](const Process& process) { return process.lane > 0; });
    for (const int64_t straggler : disturbed.stragglers) {
      Process& process = processes_[static_cast<size_t>(classes_.of(straggler))];
      process.slowdown = disturbed.slowdown;
      process.is_straggler = true;
    }
    if (disturbed.slow_link)
      processes_[static_cast<size_t>(classes_.of(*disturbed.slow_link))].has_slow_link = true;
    for (Process& process : processes_) process.compute(step);
  }

  DisturbedStep run(const std::vector<ScheduleItem>& schedule) {
    take(schedule);
    DisturbedStep result;
    for (const Process& process : processes_)
      result.seconds = std::max({result.seconds, process.now, process.network_free});
    for (size_t c = 0; c < processes_.size(); ++c) {
      Process& process = processes_[c];
      if (has_lanes_) process.waiting += result.seconds - process.now;
      add(process, classes_.count(static_cast<int64_t>(c)),
          process.is_straggler    ? result.stragglers
          : process.has_slow_link ? result.slow_link
                                  : result.others);
    }
    return result;
  }

 private:
  struct Process {
    int lane = 0;
    double slowdown = 1;
    bool is_straggler = false, has_slow_link = false;
    double now = 0, network_free = 0;
    double computing = 0, waiting = 0, sending = 0;

    void compute(double seconds) {
      now += seconds * slowdown;
      computing += seconds * slowdown;
    }
  };
  /// The collective of a process group.
  struct Meeting {
    double begin = 0;
    bool is_slow = false;
  };

  static void add(const Process& process, int64_t count, ProcessTimes& times) {
    times.count += count;
    const double weight = static_cast<double>(count) / static_cast<double>(times.count);
    times.computing += weight * (process.computing - times.computing);
    times.waiting += weight * (process.waiting - times.waiting);
    times.sending += weight * (process.sending - times.sending);
  }

  void take(const std::vector<ScheduleItem>& schedule) {
    for (const ScheduleItem& item : schedule) std::visit([this](const auto& kind) { take(kind); }, item);
  }

  void take(const ScheduledWork& work) {
    for (Process& process : processes_) {
      if (work.lane.value_or(process.lane) == process.lane) process.compute(work.seconds);
    }
  }

  void take(const ScheduledStart& start) {
    const std::vector<size_t>& groups = groups_over(start.axes);
    meetings_.assign(static_cast<size_t>(classes_.groups(start.axes)), {});
    const auto takes_part = [&](size_t c) {
      const int lane = processes_[c].lane;
      return start.lane.value_or(lane) == lane || std::ranges::find(start.to, lane) != start.to.end();
    };
    for (size_t c = 0; c < processes_.size(); ++c) {
      if (!takes_part(c)) continue;
      Meeting& meeting = meetings_[groups[c]];
      meeting.begin = std::max({meeting.begin, processes_[c].now, processes_[c].network_free});
      meeting.is_slow = meeting.is_slow || processes_[c].has_slow_link;
    }
    const auto found = slow_.find(start.message);
    const ScheduledStart& slow = found == slow_.end() ? start : found->second;
    std::vector<double>& done = done_[start.message];
    done.assign(processes_.size(), 0);
    for (size_t c = 0; c < processes_.size(); ++c) {
      if (!takes_part(c)) continue;
      const Meeting& meeting = meetings_[groups[c]];
      const ScheduledStart& taken = meeting.is_slow ? slow : start;
      Process& process = processes_[c];
      process.network_free = done[c] = meeting.begin + taken.seconds;
      process.sending += taken.seconds;
      process.compute(taken.processor);
    }
  }

  void take(const ScheduledWait& wait) {
    for (const int64_t message : wait.messages) {
      const auto done = done_.find(message);
      if (done == done_.end()) continue;
      for (size_t c = 0; c < processes_.size(); ++c) {
        Process& process = processes_[c];
        const double until = std::max(process.now, done->second[c]);
        process.waiting += until - process.now;
        process.now = until;
      }
    }
  }

  void take(const ScheduleLoop& loop) {
    const int64_t simulated = std::min(loop.times, kLongestLoop);
    std::vector<Process> before;
    for (int64_t i = 0; i < simulated; ++i) {
      if (i + 1 == simulated) before = processes_;
      take(loop.body);
    }
    const auto left = static_cast<double>(loop.times - simulated);
    if (left <= 0) return;
    for (size_t c = 0; c < processes_.size(); ++c) {
      Process& process = processes_[c];
      process.computing += left * (process.computing - before[c].computing);
      process.waiting += left * (process.waiting - before[c].waiting);
      process.sending += left * (process.sending - before[c].sending);
      process.now += left * (process.now - before[c].now);
      process.network_free = std::max(process.network_free, process.now);
    }
  }

  /// The number of the process group of each class.
  const std::vector<size_t>& groups_over(AxisMask axes) {
    const auto [known, is_new] = groups_.try_emplace(axes);
    if (is_new) {
      for (int64_t c = 0; c < classes_.size(); ++c)
        known->second.push_back(static_cast<size_t>(classes_.group(c, axes)));
    }
    return known->second;
  }

  const SlowCollectives& slow_;
  const ProcessClasses classes_;
  bool has_lanes_ = false;
  std::vector<Process> processes_;  ///< one of each class
  std::map<AxisMask, std::vector<size_t>> groups_;
  std::vector<Meeting> meetings_;
  std::unordered_map<int64_t, std::vector<double>> done_;  ///< by message: when each class has received it
};

bool is_update(const ScheduleItem& item) {
  const auto* work = std::get_if<ScheduledWork>(&item);
  return work != nullptr && work->phase == Phase::kUpdate;
}

void add_collectives(const std::vector<ScheduleItem>& schedule, SlowCollectives& collectives) {
  for (const ScheduleItem& item : schedule) {
    if (const auto* start = std::get_if<ScheduledStart>(&item)) collectives.emplace(start->message, *start);
    if (const auto* loop = std::get_if<ScheduleLoop>(&item)) add_collectives(loop->body, collectives);
  }
}

}  // namespace

SlowCollectives collectives_of(const std::vector<ScheduleItem>& schedule) {
  SlowCollectives collectives;
  add_collectives(schedule, collectives);
  return collectives;
}

DisturbedStep disturbed_step(const std::vector<ScheduleItem>& schedule, const SlowCollectives& slow,
                             const HostedMesh& hosted, const DisturbedProcesses& disturbed, double step,
                             const std::optional<int>& stages) {
  return StepSimulation(slow, hosted, disturbed, step, stages).run(schedule);
}

double seconds_before_update(const std::vector<ScheduleItem>& schedule, double step) {
  return predict_step({schedule.begin(), std::ranges::find_if(schedule, is_update)}, step).seconds;
}

}  // namespace mtf
