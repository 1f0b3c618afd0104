// Runs Gloo over existing connections. Gloo's own way to connect listens at a port for each peer and accepts
// any client.
#pragma once

#include <gloo/transport/context.h>
#include <gloo/transport/device.h>

#include <chrono>
#include <memory>
#include <vector>

#include "engine/comm/sockets/socket.h"

namespace mtf {

/// Returns a context of Gloo's TCP transport whose pairs use these sockets, one for each rank. Throws what
/// Gloo throws.
std::shared_ptr<gloo::transport::Context> context_of_sockets(std::shared_ptr<gloo::transport::Device> device,
                                                             int rank, std::vector<Socket> sockets,
                                                             std::chrono::milliseconds timeout);

}  // namespace mtf
