// all_reduce and reduce_scatter between processes: direct reduce-scatter, then (all_reduce) all-gather.
#pragma once

#include "engine/comm/process/remote_job.h"

namespace mtf {

/// Every element has one owner, who adds the members' elements in the order of the tree and rounds once.
/// all_reduce: each process that wants the result owns an equal share of the elements of all groups that are
/// spread alike; reduce_scatter: the process that wants a part owns it. What one process supplies of a whole
/// subtree travels pre-added. Contributions of a message's size are under way while those before are added.
std::unique_ptr<RemoteCollective> prepare_reduce_job(Staging& staging, CommunicationThread& thread,
                                                     std::vector<RemotePart> parts, std::string name);

}  // namespace mtf
