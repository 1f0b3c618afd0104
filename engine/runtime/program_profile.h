// The instructions of a program as spans of a profile: of each worker, and of the device where there is one.
//
//   ProgramProfile profile(options.profile, backend, program, threads);
//   profile.begin();
//   {
//     const ProgramProfile::Span span = profile.span(instruction, worker, coordinate);
//     kernel.run(...);
//   }
//   profile.end();
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/core/profile.h"
#include "engine/spmd/program.h"

namespace mtf {

class ProgramProfile {
 public:
  /// `profile`: null for none. All must outlive it; workers are numbered from 0, the thread that calls.
  ProgramProfile(Profile* profile, Backend& backend, const Program& program, int workers);

  /// On a device: what is enqueued is timed, so nothing is to be recorded or replayed.
  bool is_on() const { return profile_ != nullptr && profile_->is_on(); }
  /// Around a run of the program. On a device, end() waits for it.
  void begin();
  void end();

  /// From construction to destruction; what a device does meanwhile is a span of its track.
  class Span {
   public:
    Span(ProgramProfile& program, ProfileTrack* track, const ProfileLabel* label, int64_t coordinate)
        : program_(program), label_(label), host_(track, label, coordinate) {}
    ~Span() {
      if (label_ != nullptr) program_.mark(label_);
    }
    Span(const Span&) = delete;
    Span& operator=(const Span&) = delete;

   private:
    ProgramProfile& program_;
    const ProfileLabel* label_;
    ProfileSpan host_;
  };
  /// Of an instruction of the program, in the thread of `worker`; `coordinate`: for which, -1 for all.
  Span span(const Instruction& instruction, int worker = 0, int64_t coordinate = -1) {
    if (!is_on()) return {*this, nullptr, nullptr, -1};
    return {*this, tracks_[worker], labels_.at(&instruction), coordinate};
  }

 private:
  void add_labels(const Program& program, const std::vector<Instruction>& block);
  void mark(const ProfileLabel* label);

  Profile* const profile_;
  std::vector<ProfileTrack*> tracks_;  ///< by worker
  std::unordered_map<const Instruction*, const ProfileLabel*> labels_;
  std::unique_ptr<DeviceClock> clock_;  ///< null: on the host
  ProfileTrack* device_track_ = nullptr;
  std::vector<const ProfileLabel*> marked_;  ///< of the run in hand
};

}  // namespace mtf
