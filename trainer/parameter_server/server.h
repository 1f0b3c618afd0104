// The process of a parameter server. It stores its share of the variables and updates them with the same
// operations as a run without servers.
#pragma once

#include "trainer/session/session.h"

namespace mtf {

/// Serves until the workers have left and returns the exit code. Throws Error (kPeerLost) when the run cannot
/// continue.
int serve_parameters(Session& session, Diagnostics& diagnostics);

}  // namespace mtf
