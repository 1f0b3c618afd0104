// ProgramProfile records the instructions of a program as spans of a profile, for each worker and for the
// device if there is one.
//
//   ProgramProfile profile(options.profile, backend, program, threads);
//   profile.begin();
//   {
//     const ProgramProfile::Span span = profile.span(instruction, worker, coordinate);
//     kernel.run(...);
//   }
//   profile.end();
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/core/profile.h"
#include "engine/spmd/program.h"

namespace mtf {

class ProgramProfile {
 public:
  /// `profile` may be null; it and the other arguments must outlive this object. Worker 0 is the calling
  /// thread.
  ProgramProfile(Profile* profile, Backend& backend, const Program& program, int workers);

  /// The label of an instruction's spans, such as "einsum decoder/block_000", with its program line.
  static const ProfileLabel* label_of(Profile& profile, const Program& program,
                                      const Instruction& instruction);

  /// True if spans are recorded. A device then times what is enqueued, so nothing may be recorded as a graph
  /// and replayed.
  bool is_on() const { return profile_ != nullptr && profile_->is_on(); }
  /// begin() and end() enclose a run of the program. On a device, end() waits for it to finish.
  void begin();
  void end();

  /// A span from construction to destruction. What a device does meanwhile is a span of the device's track.
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
  /// A span for an instruction of the program in the thread of `worker`; `coordinate` is -1 if it covers all
  /// coordinates.
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
  std::unique_ptr<DeviceClock> clock_;  ///< null on the host
  ProfileTrack* device_track_ = nullptr;
  std::vector<const ProfileLabel*> marked_;  ///< labels of the current run, in order
};

}  // namespace mtf
