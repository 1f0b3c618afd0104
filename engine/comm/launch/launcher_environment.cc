#include "engine/comm/launch/launcher_environment.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "engine/base/error.h"

namespace mtf {
namespace {

constexpr int64_t kMostProcesses = 1'000'000;

}  // namespace

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

std::optional<int64_t> LauncherEnvironment::number(std::string_view name) const {
  const std::string* text = find(name);
  if (!text) return std::nullopt;
  int64_t number = 0;
  const auto [rest, failure] = std::from_chars(text->data(), text->data() + text->size(), number);
  if (failure != std::errc() || rest != text->data() + text->size() || number < 0 || number > kMostProcesses)
    reject_environment(fmt::format("the environment variable {} is `{}`", name, *text),
                       fmt::format("a whole number from 0 to {}, or {}", kMostProcesses, kAloneHint));
  return number;
}

bool LauncherEnvironment::is_slurm_step() const {
  constexpr int64_t kFirstSpecialStep = 0xfffffff0;  // the shell, the batch script, ... have such ids
  const std::string* step = find("SLURM_STEP_ID");
  if (!step || !find("SLURM_PROCID")) return false;
  int64_t id = 0;
  std::from_chars(step->data(), step->data() + step->size(), id);
  return id < kFirstSpecialStep;
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
