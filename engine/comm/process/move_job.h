// Runs all_gather, all_to_all and exchange between processes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/comm/process/remote_job.h"

namespace mtf {

/// Each process sends every other process the bytes that it needs, each byte once, in messages of at most one
/// slot. At any time at most two messages to each peer and two from it are in transit.
std::unique_ptr<RemoteCollective> prepare_move_job(Staging& staging, CommunicationThread& thread,
                                                   const std::vector<RemotePart>& parts, std::string name);

}  // namespace mtf
