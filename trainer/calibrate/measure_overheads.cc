#include "trainer/calibrate/measure_overheads.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "engine/base/median.h"
#include "engine/base/seconds_since.h"
#include "engine/ops/binary.h"
#include "engine/ops/unary.h"
#include "engine/runtime/executor.h"
#include "engine/runtime/thread_pool.h"
#include "engine/spmd/partition/partition.h"
#include "trainer/calibrate/measure_products.h"
#include "trainer/calibrate/rounded.h"
#include "trainer/calibrate/seconds_on.h"

namespace mtf {
namespace {

using Clock = std::chrono::steady_clock;

/// The time of a program of `count` small operations, on one position.
double program_seconds(const Measurement& measurement, int count) {
  Graph graph;
  Tensor x = graph.input("x", {{"n", 16}});
  const Tensor y = graph.input("y", {{"n", 16}});
  for (int i = 0; i < count; ++i) x = i % 2 == 0 ? add(x, y) : relu(x);
  graph.set_output("x", x);
  const Program program = partition(graph, Layouts::single());
  VariableStore variables(measurement.backend, program.mesh, program.variables);
  Executor executor(program, measurement.backend, variables, {});
  uint64_t step = 0;
  return least_seconds(measurement.backend, measurement.rounds, [&] { executor.run(++step); });
}

/// Returns the share of its speed that a core keeps where all multiply matrices in their caches.
double speed_together(const Measurement& measurement, int cores) {
  constexpr double kSeconds = 0.05;
  ThreadPool pool(cores, [&] { measurement.backend.prepare_thread(); });
  std::vector<TimedProduct> products;
  for (int i = 0; i < cores; ++i)
    products.push_back(
        timed_product(measurement, {256, 256, 256}, DType::kFloat32, {}, MatmulPrecision::kFull, 0));
  std::vector<double> speeds(static_cast<size_t>(cores));
  const auto multiply = [&](Clock::time_point begin, size_t core) {
    double runs = 0;
    const double busy = seconds_on(CLOCK_THREAD_CPUTIME_ID);
    for (; seconds_since(begin) < kSeconds; ++runs) products[core].kernel->run();
    speeds[core] = runs / std::max(1e-9, seconds_on(CLOCK_THREAD_CPUTIME_ID) - busy);
  };
  double alone = 0, together = 0;
  for (int round = 0; round <= measurement.rounds; ++round) {
    multiply(Clock::now(), 0);
    alone = std::max(alone, speeds[0]);
    const auto begin = Clock::now();
    pool.run(cores, [&](int64_t core, int) { multiply(begin, static_cast<size_t>(core)); });
    together = std::max(together, *std::ranges::min_element(speeds));
  }
  return together > 0 ? std::min(1.0, together / alone) : 1;  // other programs had the cores
}

/// Returns by how much a section of tasks, which take some microseconds each, takes longer than one core's share of them:
/// until the workers have begun, and until the last one ends. Before each section the caller computes for `pause` seconds.
double sharing_seconds(int cores, int sections, int tasks_of_core, double pause) {
  const auto task = [] {
    volatile double sum = 0;
    for (int i = 0; i < 1500; ++i) sum = sum + i;
  };
  ThreadPool pool(cores, [] {});
  std::vector<double> alone, shared;
  for (int i = 0; i < sections; ++i) {
    const auto begin = Clock::now();
    for (int t = 0; t < tasks_of_core; ++t) task();
    alone.push_back(seconds_since(begin));
    while (seconds_since(begin) < alone.back() + pause) {
    }
    const auto section = Clock::now();
    pool.run(int64_t{cores} * tasks_of_core, [&](int64_t, int) { task(); });
    shared.push_back(seconds_since(section));
  }
  return std::max(0.0, median(shared) - median(alone));
}

}  // namespace

void measure_overheads(const Measurement& measurement, DeviceOptions& device) {
  constexpr int kFew = 8, kMany = 264;
  const double few = program_seconds(measurement, kFew), many = program_seconds(measurement, kMany);
  device.overhead = rounded(std::max(0.0, (many - few) / (kMany - kFew)));
  device.step = rounded(std::max(0.0, few - kFew * device.overhead));
  if (!measurement.backend.is_host() || device.cores == 1) return;
  constexpr double kBreak = 150e-6;  // workers fall asleep in it, as between steps
  const auto cores = static_cast<int>(device.cores);
  device.together = rounded(speed_together(measurement, cores));
  device.barrier = rounded(sharing_seconds(cores, 2000, 4, 0));
  device.wake = rounded(sharing_seconds(cores, 200, 200, kBreak));
}

}  // namespace mtf
