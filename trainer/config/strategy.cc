#include "trainer/config/strategy.h"

#include <fmt/format.h>

#include <utility>

#include "trainer/config/config.h"
#include "trainer/optimizer/patterns.h"

namespace mtf {

void describe(config::Visitor&, AllReduceStrategy&) {}

void describe(config::Visitor& visit, ParameterServerStrategy& options) {
  visit("mode", options.mode,
        "sync: a step is the sum of all workers' gradients, as with all_reduce; async: each worker's batch "
        "is a "
        "step of its own, and nobody waits for the slowest");
  visit(
      "max_staleness", options.max_staleness,
      "async: updates that may come between a worker's reading of the weights and its own update; who would "
      "be too far ahead waits",
      config::non_negative);
  visit("placement", options.placement,
        "which server keeps a variable: bytes (the largest first, each where least is, or split in rows over "
        "all "
        "where it would be too much for one), or a map of patterns of names to tasks of the job ps");
}

const ParameterServerStrategy* parameter_servers(const Config& config) {
  if (config.run.mode != RunMode::kTrain) return nullptr;
  return std::get_if<ParameterServerStrategy>(&config.train.strategy);
}

bool is_asynchronous(const Config& config) {
  const auto* strategy = std::get_if<ParameterServerStrategy>(&config.train.strategy);
  const bool trains = config.run.mode == RunMode::kTrain || config.run.mode == RunMode::kExplain;
  return trains && strategy != nullptr && strategy->mode == ServerMode::kAsync;
}

bool is_parameter_server(const Config& config) { return config.launch.role == "ps"; }

std::vector<std::string> server_addresses(const Config& config) {
  for (const auto& [job, tasks] : config.launch.jobs) {
    if (job == "ps") return tasks;
  }
  return {};
}

int worker_count(const Config& config) { return config.launch.size; }

void check_strategy(const Config& config, Diagnostics& diagnostics) {
  if (!config.launch.computes && !is_parameter_server(config)) {
    diagnostics.error(Mark{},
                      fmt::format("this process is the {} of TF_CONFIG, which has nothing to do here: the "
                                  "workers evaluate",
                                  config.launch.role),
                      "do not start it");
    return;
  }
  const ParameterServerStrategy* strategy = parameter_servers(config);
  if (strategy == nullptr) {
    if (is_parameter_server(config)) {
      diagnostics.error(config.cluster.job ? config.mark("cluster.job") : Mark{},
                        "this process is a parameter server, but the run has no use for one",
                        "`train.strategy: parameter_server` and `run.mode: train`");
    }
    return;
  }
  const auto servers = static_cast<int64_t>(server_addresses(config).size());
  if (const auto teacher = teacher_section(config)) {
    diagnostics.error(
        config.mark(teacher->name),
        fmt::format("`train.strategy: parameter_server` does not work with `{}`", teacher->name),
        "`train.strategy: all_reduce`");
  }
  if (config.train.on_divergence == OnDivergence::kRestore && strategy->mode == ServerMode::kAsync) {
    diagnostics.error(config.mark("train.on_divergence"),
                      "`train.on_divergence: restore` does not work with asynchronous parameter servers",
                      "`stop` or `skip`, or `train.strategy.mode: sync`");
  }
  if (const auto* tasks = std::get_if<config::Named<int64_t>>(&strategy->placement)) {
    for (const auto& [pattern, task] : *tasks) {
      const Mark at = config.mark("train.strategy.placement");
      if (std::string problem = pattern_problem("train.strategy.placement", pattern); !problem.empty())
        diagnostics.error(at, std::move(problem));
      if (servers > 0 && (task < 0 || task >= servers))
        diagnostics.error(
            at, fmt::format("`train.strategy.placement`: there is no ps task {} for `{}`", task, pattern),
            servers == 1 ? "0 is the only one" : fmt::format("0 to {}", servers - 1));
    }
  }
}

}  // namespace mtf
