#include "trainer/calibrate/measure_link.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "engine/base/median.h"
#include "engine/base/seconds_since.h"
#include "engine/ops/reduce.h"
#include "engine/runtime/executor.h"
#include "engine/spmd/partition/partition.h"
#include "trainer/calibrate/rounded.h"
#include "trainer/calibrate/seconds_on.h"

namespace mtf {
namespace {

using Clock = std::chrono::steady_clock;

/// A sum over all processes of `elements` numbers.
class MeasuredSum {
 public:
  MeasuredSum(Backend& backend, Communicator& communicator, int64_t elements)
      : mesh_(Shape{{"all", communicator.processes()}}) {
    const Dimension all{"parts", communicator.processes()}, n{"n", elements};
    const Tensor x = graph_.input("x", {all, n});
    graph_.set_output("sum", reduce_sum(x, Shape{n}));
    const Layouts layouts = Layouts::make(mesh_, LayoutRules::parse("parts:all"));
    const Program program = partition(graph_, layouts, {.asynchronous = true});
    variables_ = std::make_unique<VariableStore>(backend, mesh_, program.variables,
                                                 VariableStoreOptions{.communicator = &communicator});
    executor_ = std::make_unique<Executor>(program, backend, *variables_,
                                           ExecutorOptions{.communicator = &communicator});
    executor_->run(0);
  }

  /// The middle time of some runs, and the share of a core that they kept busy.
  std::pair<double, double> seconds_and_core(int runs) {
    std::vector<double> times;
    const double busy = seconds_on(CLOCK_PROCESS_CPUTIME_ID);
    const auto begin = Clock::now();
    for (int i = 0; i < runs; ++i) {
      const auto run = Clock::now();
      executor_->run(static_cast<uint64_t>(i + 1));
      times.push_back(seconds_since(run));
    }
    return {median(times), (seconds_on(CLOCK_PROCESS_CPUTIME_ID) - busy) / seconds_since(begin)};
  }

 private:
  Graph graph_;
  Mesh mesh_;
  std::unique_ptr<VariableStore> variables_;
  std::unique_ptr<Executor> executor_;
};

}  // namespace

LinkOptions measure_link(Backend& backend, ProcessGroup& processes) {
  Communicator& communicator = processes.communicator();
  constexpr int64_t kFew = 256, kCached = 256 << 10, kMany = 4 << 20;
  MeasuredSum few(backend, communicator, kFew), cached(backend, communicator, kCached),
      many(backend, communicator, kMany);
  // The speed of messages changes from moment to moment: all sizes in turns, and the middle of the rounds.
  std::vector<double> latencies, cached_times, times, cores;
  for (int round = 0; round < 9; ++round) {
    latencies.push_back(few.seconds_and_core(50).first);
    cached_times.push_back(cached.seconds_and_core(20).first);
    const auto [seconds, core] = many.seconds_and_core(7);
    times.push_back(seconds);
    cores.push_back(core);
  }
  const double latency = median(latencies);
  const auto rate = [&](int64_t elements, const std::vector<double>& measured) {
    const double share = 1 - 1 / static_cast<double>(processes.size());
    return rounded(2 * share * 4 * static_cast<double>(elements) /
                   std::max(1e-9, median(measured) - latency));
  };
  LinkOptions link;
  link.inside = processes.launch().local_size == processes.size();
  link.name = link.inside ? "within the machine" : "between machines";
  link.latency = rounded(latency / 2);
  link.bandwidth = rate(kMany, times);
  if (link.inside) link.cached = rate(kCached, cached_times);
  link.core = std::min(1.0, rounded(median(cores)));
  return link;
}

}  // namespace mtf
