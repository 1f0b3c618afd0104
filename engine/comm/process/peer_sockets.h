// Opens one connection between each two processes of a run, with authentication by challenge and response, so
// that no other process takes the place of a peer.
//
//   std::vector<Socket> sockets = connect_peers(options);      // one for each rank, closed for this one
#pragma once

#include <vector>

#include "engine/comm/process/gloo_transport.h"
#include "engine/comm/sockets/socket.h"

namespace mtf {

/// Returns when this process is connected to all others. Throws as connect_gloo() does.
std::vector<Socket> connect_peers(const GlooOptions& options);

}  // namespace mtf
