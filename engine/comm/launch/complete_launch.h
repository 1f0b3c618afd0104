// The last steps of detecting a launch, which all launchers share.
#pragma once

#include <string_view>

#include "engine/comm/launch/launch.h"

namespace mtf {

/// Returns the launch of a single process. `reason` says what decided this; it may be empty.
Launch launch_alone(std::string_view reason);
/// Sets the address where the processes meet.
void meet_at(Launch& launch, const HostPort& address);
/// Sets the local ranks if they are unknown and all processes are on this machine, and describes the decision
/// in `source`.
void complete_launch(Launch& launch, std::string_view reason);

}  // namespace mtf
