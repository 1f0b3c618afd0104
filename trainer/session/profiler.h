// Writes the timeline of some steps of a training run (section `profile`) into its directory: profile.json,
// or with several processes a profile.rank-N.json for each, with a common time origin.
//
//   Profiler profiler(session, [&](const std::string& line) { log.info(line); });
//   for (...) {
//     profiler.begin_step();
//     const ProfileSpan span = span_on(profile, kMainTrack, "step", ProfileCategory::kStep, step);
//     ...
//   }
//   profiler.finish();
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "engine/core/profile.h"
#include "trainer/session/session.h"

namespace mtf {

/// Returns null if the configuration requests no profile.
std::unique_ptr<Profile> make_profile(const Config& config);

class Profiler {
 public:
  /// If `session` has a profile the call is collective. `note` receives a line for the log.
  Profiler(const Session& session, std::function<void(const std::string& line)> note);

  /// Must be called before each step; starts and ends the profile.
  void begin_step();
  /// Must be called after the last step; writes the file if it was not written yet.
  void finish();

 private:
  const Session& session_;
  const std::function<void(const std::string& line)> note_;
  Profile* const profile_;
  int64_t origin_ = 0;
  int64_t steps_ = 0;  ///< number of steps begun
  bool is_done_ = false;
};

}  // namespace mtf
