// A profile as a file in the Trace Event Format, which ui.perfetto.dev and chrome://tracing show: one
// process, one thread for each track.
//
//   write_chrome_trace("profile.rank-1.json", profile, {.rank = 1, .name = "rank 1 on alpha", .origin =
//   origin});
#pragma once

#include <cstdint>
#include <string>

#include "engine/core/profile.h"

namespace mtf {

struct TracedProcess {
  int rank = 0;
  std::string name;
  int64_t origin = 0;  ///< of the file's times: system_nanoseconds() of a moment, the same in all processes
};

/// Nanoseconds since 1970 by the machine's clock, on which processes agree as well as their machines do.
int64_t system_nanoseconds();

/// Returns 0 or the system's error number.
int write_chrome_trace(const std::string& path, const Profile& profile, const TracedProcess& process);

}  // namespace mtf
