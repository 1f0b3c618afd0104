// The environment variables by which launchers tell a process which one it is.
//
//   const LauncherEnvironment environment(environment_of_process());
//   for (const LauncherVariables& variables : all_launcher_variables())
//     if (environment.has_rank(variables)) ... *environment.number(variables.rank) ...
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

/// The variables of a launcher. Empty: it has none for this.
struct LauncherVariables {
  Launcher launcher;
  std::string_view name;
  std::string_view rank, size, local_rank, local_size;
  std::vector<std::string_view> job;  ///< what tells its jobs apart: those that are set
};

const std::array<LauncherVariables, 5>& all_launcher_variables();
/// Of one that has such a set.
const LauncherVariables& variables_of(Launcher launcher);

/// What to do where the environment is not meant.
inline constexpr std::string_view kAloneHint = "`cluster.launcher: none` for one process";

class LauncherEnvironment {
 public:
  /// `environment` outlives it.
  explicit LauncherEnvironment(const Environment& environment) : environment_(environment) {}

  /// An empty variable counts as none.
  const std::string* find(std::string_view name) const;
  /// A whole number from 0; nothing where the variable is not set. Throws Error (kUsage) for other texts.
  std::optional<int64_t> number(std::string_view name) const;
  /// Slurm sets some variables in the shell of an allocation and in a batch script, too, which are one
  /// process.
  bool is_slurm_step() const;
  bool has_rank(const LauncherVariables& variables) const;
  /// The step's own number of tasks, where Slurm gives both.
  std::string_view size_variable(const LauncherVariables& variables) const;

 private:
  const Environment& environment_;
};

/// Throws Error (kUsage).
[[noreturn]] void reject_environment(std::string message, std::string hint);
/// For variables of which one is set alone.
[[noreturn]] void reject_half(std::string_view set, std::string_view missing);

}  // namespace mtf
