#include "engine/runtime/program_profile.h"

#include <fmt/format.h>

#include <algorithm>

namespace mtf {

const ProfileLabel* ProgramProfile::label_of(Profile& profile, const Program& program,
                                             const Instruction& instruction) {
  const bool communicates =
      instruction.is_collective() || instruction.is<action::Transfer>() || instruction.is<action::Done>();
  std::string name(name_of(instruction));
  if (!instruction.provenance.path().empty()) name += " " + instruction.provenance.path();
  std::string line = to_string(program, instruction);
  // Collapses the padding between columns.
  const auto are_blanks = [](char a, char b) { return a == ' ' && b == ' '; };
  line.erase(std::ranges::unique(line, are_blanks).begin(), line.end());
  return profile.label(name, communicates ? ProfileCategory::kCommunication : ProfileCategory::kCompute,
                       line);
}

ProgramProfile::ProgramProfile(Profile* profile, Backend& backend, const Program& program, int workers)
    : profile_(profile) {
  if (profile_ == nullptr) return;
  for (int worker = 0; worker < workers; ++worker)
    tracks_.push_back(profile_->track(worker == 0 ? kMainTrack : fmt::format("worker {}", worker)));
  add_labels(program, program.instructions);
  clock_ = backend.make_clock();
  if (clock_) device_track_ = profile_->track(kDeviceTrack);
}

void ProgramProfile::add_labels(const Program& program, const std::vector<Instruction>& block) {
  for (const Instruction& instruction : block) {
    labels_[&instruction] = label_of(*profile_, program, instruction);
    add_labels(program, instruction.body());
  }
}

void ProgramProfile::begin() {
  marked_.clear();
  if (clock_ && is_on()) clock_->mark();
}

void ProgramProfile::mark(const ProfileLabel* label) {
  if (!clock_) return;
  clock_->mark();
  marked_.push_back(label);
}

/// A device runs instructions one after the other: each begins when the one before ends.
void ProgramProfile::end() {
  if (!clock_ || !is_on()) return;
  const std::vector<int64_t> times = clock_->read();
  for (size_t i = 0; i < marked_.size(); ++i) device_track_->add(marked_[i], times[i], times[i + 1]);
}

}  // namespace mtf
