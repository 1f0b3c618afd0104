#include "trainer/session/profiler.h"

#include <fmt/format.h>

#include <utility>

#include "engine/base/counted.h"
#include "engine/base/error.h"
#include "engine/comm/rendezvous/handshake.h"
#include "trainer/report/chrome_trace.h"
#include "trainer/session/model_dir.h"

namespace mtf {

std::unique_ptr<Profile> make_profile(const Config& config) {
  const bool wanted =
      config.run.mode == RunMode::kBench || (config.run.mode == RunMode::kTrain && config.profile.steps > 0);
  return wanted ? std::make_unique<Profile>() : nullptr;
}

Profiler::Profiler(const Session& session, std::function<void(const std::string& line)> note)
    : session_(session), note_(std::move(note)), profile_(session.profile.get()) {
  if (profile_ == nullptr) return;
  profile_->set_observer(session.backend->profile_observer());
  origin_ = std::stoll(broadcast(session.processes->communicator(), std::to_string(system_nanoseconds()),
                                 "origin of the profile"));
}

void Profiler::begin_step() {
  if (profile_ == nullptr || is_done_) return;
  const ProfileOptions& options = session_.config.profile;
  if (steps_ == options.skip) profile_->start();
  if (steps_ == options.skip + options.steps) return finish();
  ++steps_;
}

void Profiler::finish() {
  if (profile_ == nullptr || std::exchange(is_done_, true)) return;
  if (!profile_->is_on()) {
    return note_(fmt::format("no profile: the run ends within the {} of `profile.skip`",
                             counted(session_.config.profile.skip, "step")));
  }
  profile_->stop();
  const Launch& launch = session_.config.launch;
  const std::string path = in_model_dir(
      session_.config, launch.several() ? fmt::format("profile.rank-{}.json", launch.rank) : "profile.json");
  if (const int error = write_chrome_trace(path, *profile_, {launch.rank, process_name(launch), origin_}))
    return note_(fmt::format("the profile cannot be written to {}: {}", path, system_message(error)));
  int64_t dropped = 0;
  for (const ProfileTrack* track : profile_->tracks()) dropped += track->dropped();
  note_(fmt::format("profile of {}: {}{}", counted(steps_ - session_.config.profile.skip, "step"), path,
                    dropped > 0
                        ? fmt::format(" (without {}: `profile.steps` is too large)", counted(dropped, "span"))
                        : ""));
}

}  // namespace mtf
