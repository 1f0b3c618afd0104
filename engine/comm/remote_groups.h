// The groups of a collective whose members are spread over processes: which process needs which results, and
// which one supplies the inputs.
//
//   RemoteGroupRequest request{.kind = kind, .axes = axes, .computed = mask, .stored = mask_of_input};
//   if (crosses_processes(hosted, request)) {      // has the same result in all processes
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
  AxisMask axes = 0;      ///< mesh dimensions along which the members of a group differ
  AxisMask computed = 0;  ///< a process computes one copy of the result for each coordinate along these
  AxisMask stored = 0;    ///< a process stores one copy of the input for each coordinate along these
  /// Return the address of a hosted position's input, and of its result; called once for each copy that is
  /// needed.
  std::function<const std::byte*(int64_t position)> input;
  std::function<std::byte*(int64_t position)> result;
};

/// True if any process needs an input that it does not have. Then all processes must prepare the collective
/// as a remote one, even if their own groups do not span processes (or if they have none), because remote
/// collectives have the same numbers in all processes.
bool crosses_processes(const HostedMesh& hosted, const RemoteGroupRequest& request);

/// Returns the groups in which this process takes part, ordered by base. A process needs the result of each
/// copy that it computes, in the group of the copy's first hosted position. It reads the inputs that it has
/// from its own memory, and gets each other input from the process that hosts the member's position. Copies
/// whose results are the same for all members (all_reduce, all_gather) are one member with several
/// destinations.
std::vector<RemoteGroup> remote_groups(const HostedMesh& hosted, const RemoteGroupRequest& request);

/// Returns process groups over which the collective's groups are spread evenly, or nothing if there are none.
/// Each process is then in exactly one process group, and the processes of each group form one of them: all
/// of them supply inputs to all others and need results, equally many each if these are gathered (inputs) or
/// scattered (results). Such a group's collective can run as one collective of the process group, in which
/// each process contributes its members. The process groups are ordered by their first groups. There are none
/// for kinds that neither sum nor gather.
std::vector<std::vector<int>> even_process_groups(const HostedMesh& hosted,
                                                  const RemoteGroupRequest& request);

}  // namespace mtf
