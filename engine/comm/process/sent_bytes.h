// What a process sends in a collective, without the messages that it takes: these may be millions.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/comm/communicator.h"

namespace mtf {

/// Payload bytes that `process` sends to the others: RemoteCollective::bytes_sent() of what
/// ProcessCommunicator::prepare makes of these parts.
int64_t sent_bytes(const std::vector<RemotePart>& parts, int process, int processes);

}  // namespace mtf
