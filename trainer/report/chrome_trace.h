// Writes a profile in the Trace Event Format, which ui.perfetto.dev and chrome://tracing display: one
// process, with one thread per track.
//
//   const TracedProcess process{.rank = 1, .name = "rank 1 on alpha", .origin = origin};
//   write_chrome_trace("profile.rank-1.json", profile, process);
#pragma once

#include <cstdint>
#include <string>

#include "engine/core/profile.h"

namespace mtf {

struct TracedProcess {
  int rank = 0;
  std::string name;
  /// The zero of the file's times: system_nanoseconds() at a moment that is the same for all processes.
  int64_t origin = 0;
};

/// Returns the nanoseconds since 1970 by the machine's clock. Processes on different machines agree as well
/// as the machines' clocks do.
int64_t system_nanoseconds();

/// Writes the file and returns 0, or the system's error number; then the file is as it was before.
int write_chrome_trace(const std::string& path, const Profile& profile, const TracedProcess& process);

}  // namespace mtf
