// Fault-injection points: named places at which a test can make the program fail.
//
//   MTF_FAULT=checkpoint.manifest            kills the process at this place (after writing the manifest)
//   MTF_FAULT=checkpoint.manifest@2          does so only when the place is passed for the second time
//   MTF_FAULT=checkpoint.write=ENOSPC        makes the next system call fail: "No space left on device"
//
// Errors are ENOSPC, EIO, EROFS, EACCES, EFBIG and EINVAL; `=bad_alloc` throws std::bad_alloc instead, as where memory is
// exhausted. Without @K the fault happens at the first passing.
// An invalid value ends the program at the first place with exit code 2 and a line that lists the valid ones.
// If the variable is not set, a place costs one look-up in the environment.
#pragma once

#include <string_view>
#include <vector>

namespace mtf {

/// Kills the process (SIGKILL) if MTF_FAULT names this place without an error. Otherwise returns the error
/// number that the next system call must pretend to have got, or 0, or throws std::bad_alloc. `name` must be one
/// of fault_points().
int fault_point(std::string_view name);

/// All names, in the order in which a save and then a restart pass the places.
const std::vector<std::string_view>& fault_points();

}  // namespace mtf
