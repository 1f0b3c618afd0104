// The process of a parameter server: it keeps its share of the variables and updates them with the operations
// that a run without servers would use.
#pragma once

#include "trainer/session/session.h"

namespace mtf {

/// Serves until the workers have left; the exit code. Throws Error (kPeerLost) when the run cannot go on.
int serve_parameters(Session& session, Diagnostics& diagnostics);

}  // namespace mtf
