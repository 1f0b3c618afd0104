// Runs all_reduce and reduce_scatter between processes: a direct reduce-scatter, followed for all_reduce by
// an all-gather.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/comm/process/remote_job.h"

namespace mtf {

/// Each element has one owner, which adds the members' elements in the order of the tree and rounds once. For
/// all_reduce, each process that needs the result owns an equal share of the elements of all groups that are
/// spread alike; for reduce_scatter, the process that needs a part owns it. A whole subtree that one process
/// supplies is added before it is sent. The contributions to one message are received while those to the
/// message before it are added.
std::unique_ptr<RemoteCollective> prepare_reduce_job(Staging& staging, CommunicationThread& thread,
                                                     std::vector<RemotePart> parts, std::string name);

}  // namespace mtf
