// The environment variables by which launchers tell a process its rank.
//
//   const Environment variables = environment_of_process();
//   const LauncherEnvironment environment(variables);
//   for (const LauncherVariables& launcher : all_launcher_variables())
//     if (environment.has_rank(launcher)) ... *environment.number(launcher.rank) ...
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/comm/launch/cluster_options.h"
#include "engine/comm/launch/launch.h"

namespace mtf {

/// The names of a launcher's variables. An empty name means that it has no such variable.
struct LauncherVariables {
  Launcher launcher;
  std::string_view name;
  std::string_view rank, size, local_rank, local_size;
  std::vector<std::string_view> job;  ///< variables that together identify the job; some may not be set
};

const std::array<LauncherVariables, 5>& all_launcher_variables();
/// Returns the variables of a launcher, which must have an entry in all_launcher_variables().
const LauncherVariables& variables_of(Launcher launcher);

/// A hint for users whose run is not meant to use the environment.
inline constexpr std::string_view kAloneHint = "`cluster.launcher: none` for one process";

class LauncherEnvironment {
 public:
  static constexpr int64_t kMostProcesses = 1'000'000;
  static constexpr int64_t kMostSlurmId = 0xffffffff;  ///< the largest id of a job or a step

  /// `environment` must outlive the object.
  explicit LauncherEnvironment(const Environment& environment) : environment_(environment) {}

  /// Returns the value of a variable, or null if it is not set or empty.
  const std::string* find(std::string_view name) const;
  /// Returns a whole number from 0 to `most`, or nothing if the variable is not set. Throws Error (kUsage) for
  /// other texts.
  std::optional<int64_t> number(std::string_view name, int64_t most = kMostProcesses) const;
  /// True if this process is a task of a Slurm step. Slurm also sets some variables in the shell of an
  /// allocation and in a batch script, which are single processes.
  bool is_slurm_step() const;
  bool has_rank(const LauncherVariables& variables) const;
  /// Returns the variable with the number of processes: that of the step if Slurm sets it besides the job's.
  std::string_view size_variable(const LauncherVariables& variables) const;

 private:
  const Environment& environment_;
};

/// Throws Error (kUsage).
[[noreturn]] void reject_environment(std::string message, std::string hint);
/// Throws Error (kUsage) for two variables of which only one is set.
[[noreturn]] void reject_half(std::string_view set, std::string_view missing);

}  // namespace mtf
