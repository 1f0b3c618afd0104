// The processor cores that a process may use: what `run.threads: auto` counts.
//
//   const int threads = usable_cores(launch.local_size);
//
// The `processes` of a run on this machine, this one included, share what their launcher may use, unless it
// has given each its own.
#pragma once

#include <filesystem>
#include <optional>

namespace mtf {

/// Cores of the affinity mask; it is this process's own if the parent process has another.
int cores_of_mask(int processes = 1);

/// Cores of the control group that allows the fewest; nothing: none sets a quota. A quota that is no whole
/// number of cores is rounded up: a thread that runs part of the time is better than time that nobody uses. A
/// group that the parent process is not in is this process's own. `root`: where /proc and the file systems of
/// the control groups are found.
std::optional<int> cores_of_quota(int processes = 1, const std::filesystem::path& root = "/");

/// What both allow; at least 1.
int usable_cores(int processes = 1);

}  // namespace mtf
