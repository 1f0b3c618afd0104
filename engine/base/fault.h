// Named places at which a test can make the program fail: fault-injection points.
//
//   MTF_FAULT=checkpoint.manifest            the second word of a name says what was just done
//   MTF_FAULT=checkpoint.manifest@2          only when this place is passed for the second time
//   MTF_FAULT=checkpoint.write=ENOSPC        the system call that follows fails: "No space left on device"
//
// Errors are ENOSPC, EIO, EROFS, EACCES, EFBIG and EINVAL. Without @K it is the first passing. A value that
// means nothing ends the program (abort) at the first place with a line that lists what is legal. Without the
// variable a place costs one look into the environment.
#pragma once

#include <string_view>
#include <vector>

namespace mtf {

/// Kills the process (SIGKILL) when MTF_FAULT names this place; returns the error number that the next system
/// call shall pretend to have met, else 0. `name` must be one of fault_points().
int fault_point(std::string_view name);

/// All names, in the order in which a save and a restart pass them.
const std::vector<std::string_view>& fault_points();

}  // namespace mtf
