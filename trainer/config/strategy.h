// Section train.strategy: how processes share the work of a training step.
//
//   strategy: all_reduce                                       # one program over all processes
//   strategy: {type: parameter_server, mode: async}   # servers (`ps` of cluster.jobs) keep the variables
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/config/schema.h"

namespace mtf {

struct Config;

struct AllReduceStrategy {
  static constexpr std::string_view type_name = "all_reduce";
};

enum class ServerMode { kSync, kAsync };
enum class PlacementWord { kBytes };
/// By bytes, or the ps task of the variables whose names match a pattern (the first that does; others by
/// bytes).
using ServerPlacement = std::variant<PlacementWord, config::Named<int64_t>>;

struct ParameterServerStrategy {
  static constexpr std::string_view type_name = "parameter_server";
  ServerMode mode = ServerMode::kSync;
  int64_t max_staleness = 8;
  ServerPlacement placement = PlacementWord::kBytes;
};

using TrainStrategy = std::variant<AllReduceStrategy, ParameterServerStrategy>;

void describe(config::Visitor& visit, AllReduceStrategy& options);
void describe(config::Visitor& visit, ParameterServerStrategy& options);

inline config::EnumNames enum_names(ServerMode) {
  return {{"sync", ServerMode::kSync}, {"async", ServerMode::kAsync}};
}
inline config::EnumNames enum_names(PlacementWord) { return {{"bytes", PlacementWord::kBytes}}; }

/// The strategy of a run that trains with parameter servers; null: it does not.
const ParameterServerStrategy* parameter_servers(const Config& config);
/// Workers go on without waiting for each other: each is a program of its own, which `explain` describes.
bool is_asynchronous(const Config& config);
/// This process is a parameter server.
bool is_parameter_server(const Config& config);

/// host:port of the job `ps`, by task.
std::vector<std::string> server_addresses(const Config& config);

/// Processes that compute, without the servers.
int worker_count(const Config& config);

/// Reports what does not fit together with section `cluster` and others.
void check_strategy(const Config& config, Diagnostics& diagnostics);

}  // namespace mtf
