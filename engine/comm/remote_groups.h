// The groups of a collective whose members are spread over processes: who wants which results, and who gives
// the inputs.
//
//   RemoteGroupRequest request{.kind = kind, .axes = axes, .computed = mask, .stored = mask_of_input};
//   if (crosses_processes(hosted, request)) {      // the same answer in all processes
//     request.input = [&](int64_t position) { return address(input, position); };
//     request.result = [&](int64_t position) { return address(output, position); };
//     part.groups = remote_groups(hosted, request);
//   }
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "engine/comm/communicator.h"
#include "engine/core/hosted_mesh.h"

namespace mtf {

struct RemoteGroupRequest {
  Collective::Kind kind = Collective::Kind::kAllReduce;
  AxisMask axes = 0;      ///< along which the members of a group differ
  AxisMask computed = 0;  ///< a process makes one copy of the result for each coordinate along these
  AxisMask stored = 0;    ///< a process holds one copy of the input for each coordinate along these
  /// Where a hosted position has its input, and its result; called once for each copy that is needed.
  std::function<const std::byte*(int64_t position)> input;
  std::function<std::byte*(int64_t position)> result;
};

/// Whether any process needs an input that it does not hold. Where one does, all processes have to prepare
/// the collective as a remote one, also those whose own groups are within them (or that have none): remote
/// collectives are numbered alike in all processes.
bool crosses_processes(const HostedMesh& hosted, const RemoteGroupRequest& request);

/// The groups in which this process takes part, by base. A process wants the result of each copy that it
/// computes, in the group of the copy's first hosted position; it takes the inputs that it holds from its own
/// memory, and each other one from the process that hosts the member's position. Copies that are equal by the
/// kind (all_reduce, all_gather) are one member with several places.
std::vector<RemoteGroup> remote_groups(const HostedMesh& hosted, const RemoteGroupRequest& request);

/// Process groups, where each process is in one and each group is spread evenly over one: all of the process group
/// want results of it, as many each where they are scattered, and give inputs to all, as many each where they
/// are gathered. Then the group's collective is one of the process group, each process with what its members have. By
/// their first groups, ascending; empty: some group is spread otherwise, or nothing is summed or gathered.
std::vector<std::vector<int>> even_process_groups(const HostedMesh& hosted,
                                                  const RemoteGroupRequest& request);

}  // namespace mtf
