// all_gather, all_to_all and exchange between processes.
#pragma once

#include "engine/comm/process/remote_job.h"

namespace mtf {

/// Each process sends every other the bytes that it wants, each once, in messages of at most a slot. Two
/// messages to a peer and two from it are under way at a time.
std::unique_ptr<RemoteCollective> prepare_move_job(Staging& staging, CommunicationThread& thread,
                                                   const std::vector<RemotePart>& parts, std::string name);

}  // namespace mtf
