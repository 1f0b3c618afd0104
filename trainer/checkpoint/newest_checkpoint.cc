#include "trainer/checkpoint/newest_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <ranges>

#include "engine/checkpoint/directory.h"
#include "trainer/checkpoint/checkpoints.h"

namespace mtf {
namespace {

std::string message_of(const DamagedCheckpoint& damage) { return damage.problems().front().message; }

void look_at(const SavedCheckpoint& saved, bool at_files) {
  const Manifest manifest = read_manifest(saved.path);
  run_state(manifest, saved.path);
  if (at_files) CheckpointReader reader(saved.path);
}

/// Returns the run's newest checkpoint before `step`.
std::optional<SavedCheckpoint> checkpoint_before(const Config& config, int64_t step) {
  std::optional<SavedCheckpoint> before;
  for (SavedCheckpoint& saved : list_checkpoints(checkpoints_directory(config))) {
    if (saved.step < step) before = std::move(saved);
  }
  return before;
}

/// Returns the error that ends a run because of `damage`, with a hint to an older checkpoint if there is one.
DamagedCheckpoint end_by_damage(const Config& config, int64_t step, const DamagedCheckpoint& damage) {
  const std::optional<SavedCheckpoint> before = checkpoint_before(config, step);
  if (!before) return damage;
  return {ErrorKind::kCheckpoint, message_of(damage),
          fmt::format("the checkpoint is damaged: remove its directory to continue from an older one, or "
                      "`checkpoint.on_damage=previous`, which goes on from step {}",
                      before->step)};
}

}  // namespace

bool goes_back_behind_damage(const Config& config) {
  if (config.checkpoint.on_damage == OnDamage::kAuto) return config.launch.restarts > 0;
  return config.checkpoint.on_damage == OnDamage::kPrevious;
}

NewestCheckpoint newest_checkpoint(const Config& config) {
  const bool goes_back = goes_back_behind_damage(config);
  const std::vector<SavedCheckpoint> all = list_checkpoints(checkpoints_directory(config));
  NewestCheckpoint result;
  for (const SavedCheckpoint& saved : std::views::reverse(all)) {
    try {
      look_at(saved, goes_back);
      result.checkpoint = saved;
      return result;
    } catch (const DamagedCheckpoint& damage) {
      if (!goes_back || saved.step == all.front().step) throw end_by_damage(config, saved.step, damage);
      result.damaged.push_back({saved, message_of(damage)});
    }
  }
  return result;
}

std::string set_aside(const DamagedSave& damaged) {
  return fmt::format("the checkpoint of step {} is damaged and set aside as {}: {}", damaged.checkpoint.step,
                     set_checkpoint_aside(damaged.checkpoint), damaged.reason);
}

std::string leave_behind(const Session& session, const std::string& path,
                         const std::optional<DamagedCheckpoint>& damage) {
  const Config& config = session.config;
  const SavedCheckpoint saved{*step_of(std::filesystem::path(path).filename().string()), path};
  if (!goes_back_behind_damage(config)) {
    if (damage) throw end_by_damage(config, saved.step, *damage);
    return {};
  }
  Communicator& communicator = session.processes->communicator();
  const std::vector<std::string> found =
      all_gather(communicator, damage ? message_of(*damage) : "", "damage to the checkpoint");
  const auto first = std::ranges::find_if_not(found, &std::string::empty);
  if (first == found.end()) return {};
  const bool sets_aside = session.processes->is_first() && checkpoint_before(config, saved.step);
  std::string warning =
      broadcast(communicator, sets_aside ? set_aside({saved, *first}) : "", "checkpoint set aside");
  if (warning.empty()) throw DamagedCheckpoint(ErrorKind::kCheckpoint, *first, "no checkpoint is before it");
  return warning;
}

}  // namespace mtf
