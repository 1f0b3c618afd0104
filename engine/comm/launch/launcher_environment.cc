#include "engine/comm/launch/launcher_environment.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/base/error.h"
#include "engine/base/parse_number.h"

namespace mtf {

const std::array<LauncherVariables, 5>& all_launcher_variables() {
  static const std::array<LauncherVariables, 5> variables{{
      {Launcher::kTorchrun,
       "torchrun",
       "RANK",
       "WORLD_SIZE",
       "LOCAL_RANK",
       "LOCAL_WORLD_SIZE",
       {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"}},
      {Launcher::kOpenMpi,
       "OpenMPI",
       "OMPI_COMM_WORLD_RANK",
       "OMPI_COMM_WORLD_SIZE",
       "OMPI_COMM_WORLD_LOCAL_RANK",
       "OMPI_COMM_WORLD_LOCAL_SIZE",
       {"PMIX_NAMESPACE"}},
      {Launcher::kPmi, "PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", {"PMI_JOBID"}},
      {Launcher::kSlurm,
       "Slurm",
       "SLURM_PROCID",
       "SLURM_NTASKS",
       "SLURM_LOCALID",
       "",
       {"SLURM_JOB_ID", "SLURM_STEP_ID"}},
      {Launcher::kKubernetes, "Kubernetes", "JOB_COMPLETION_INDEX", "WORLD_SIZE", "", "", {}},
  }};
  return variables;
}

const LauncherVariables& variables_of(Launcher launcher) {
  return *std::ranges::find(all_launcher_variables(), launcher, &LauncherVariables::launcher);
}

const std::string* LauncherEnvironment::find(std::string_view name) const {
  const auto found = environment_.find(std::string(name));
  return found == environment_.end() || found->second.empty() ? nullptr : &found->second;
}

std::optional<int64_t> LauncherEnvironment::number(std::string_view name, int64_t most) const {
  const std::string* text = find(name);
  if (!text) return std::nullopt;
  const auto number = parse_number<int64_t>(*text);
  if (!number || *number < 0 || *number > most)
    reject_environment(fmt::format("the environment variable {} is `{}`", name, *text),
                       fmt::format("a whole number from 0 to {}, or {}", most, kAloneHint));
  return number;
}

bool LauncherEnvironment::is_slurm_step() const {
  constexpr int64_t kFirstSpecialStep = 0xfffffff0;  // the shell, the batch script, ... have such ids
  if (!find("SLURM_PROCID")) return false;
  const auto step = number("SLURM_STEP_ID", kMostSlurmId);
  return step && *step < kFirstSpecialStep;
}

bool LauncherEnvironment::has_rank(const LauncherVariables& variables) const {
  return find(variables.rank) && (variables.launcher != Launcher::kSlurm || is_slurm_step());
}

std::string_view LauncherEnvironment::size_variable(const LauncherVariables& variables) const {
  const bool step = variables.launcher == Launcher::kSlurm && find("SLURM_STEP_NUM_TASKS");
  return step ? "SLURM_STEP_NUM_TASKS" : variables.size;
}

void reject_environment(std::string message, std::string hint) {
  throw Error(ErrorKind::kUsage, std::move(message), std::move(hint));
}

void reject_half(std::string_view set, std::string_view missing) {
  reject_environment(fmt::format("the environment variable {} is set, and {} is not", set, missing),
                     fmt::format("set {} too, or {}", missing, kAloneHint));
}

}  // namespace mtf
