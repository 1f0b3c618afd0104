// Counts the bytes that a process sends in a collective without planning its messages, which may be millions.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/comm/communicator.h"

namespace mtf {

/// Returns the payload bytes that `process` sends to the others: the result of RemoteCollective::bytes_sent()
/// for the collective that ProcessCommunicator::prepare() makes of these parts.
int64_t sent_bytes(const std::vector<RemotePart>& parts, int process, int processes);

}  // namespace mtf
