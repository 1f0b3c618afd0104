// Writes the timeline of some steps of a training run (section `profile`) into its directory: profile.json,
// of several processes each its own profile.rank-N.json, with times that can be compared.
//
//   Profiler profiler(session, [&](const std::string& line) { log.info(line); });
//   for (...) {
//     profiler.begin_step();
//     const ProfileSpan span = span_on(session.profile.get(), kMainTrack, "step", ProfileCategory::kStep,
//     step);
//     ...
//   }
//   profiler.finish();
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "engine/core/profile.h"
#include "trainer/session/session.h"

namespace mtf {

/// Null: the configuration asks for none.
std::unique_ptr<Profile> make_profile(const Config& config);

class Profiler {
 public:
  /// Where `session` has a profile, the processes of its communicator call it together. `note` gets a line
  /// for people.
  Profiler(const Session& session, std::function<void(const std::string& line)> note);

  /// Before each step: begins and ends what is profiled.
  void begin_step();
  /// After the last step: writes the file, if that is still to be done.
  void finish();

 private:
  const Session& session_;
  const std::function<void(const std::string& line)> note_;
  Profile* const profile_;
  int64_t origin_ = 0;
  int64_t steps_ = 0;  ///< begun
  bool is_done_ = false;
};

}  // namespace mtf
