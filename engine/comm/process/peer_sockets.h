// The connections between the processes of a run: one between each two, opened by challenge and response, so
// that nobody else takes the place of a peer.
//
//   std::vector<Socket> sockets = connect_peers(options);      // by rank; none for this one
#pragma once

#include <vector>

#include "engine/comm/process/gloo_transport.h"
#include "engine/comm/sockets/socket.h"

namespace mtf {

/// Returns when this process is connected with all others. Throws as connect_gloo() does.
std::vector<Socket> connect_peers(const GlooOptions& options);

}  // namespace mtf
