// What all ways to find a launch end with.
#pragma once

#include <string_view>

#include "engine/comm/launch/launch.h"

namespace mtf {

/// `reason`: what decided; empty: nothing said otherwise.
Launch launch_alone(std::string_view reason);
void meet_at(Launch& launch, const HostPort& address);
/// Completes local ranks that nobody gave, and says what was decided.
void complete_launch(Launch& launch, std::string_view reason);

}  // namespace mtf
