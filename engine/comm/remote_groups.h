// The groups of a collective whose members are spread over processes: which process needs which results, and
// which one supplies the inputs.
//
//   RemoteGroupPlans plans(hosted);
//   RemoteGroupRequest request{.kind = kind, .axes = axes, .computed = mask, .stored = mask_of_input};
//   if (crosses_processes(hosted, request)) {      // has the same result in all processes
//     const RemoteGroupPlan& plan = plans.of(request);
//     part.groups = plan.groups([&](int64_t position) { return address(input, position); },
//                               [&](int64_t position) { return address(output, position); });
//     part.process_groups = plan.process_groups();
//   }
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/comm/communicator.h"
#include "engine/core/hosted_mesh.h"

namespace mtf {

struct RemoteGroupRequest {
  Collective::Kind kind = Collective::Kind::kAllReduce;
  AxisMask axes = 0;     ///< mesh dimensions along which the members of a group differ
  Copies computed = {};  ///< copies of the result, each of which a process computes once
  Copies stored = {};    ///< copies of the input, each of which a process stores once

  friend auto operator<=>(const RemoteGroupRequest&, const RemoteGroupRequest&) = default;
};

/// True if any process lacks an input of a group that one of its positions is in. Then all processes must prepare the
/// collective as a remote one, even if their own groups do not span processes (or if they have none), because remote
/// collectives have the same numbers in all processes.
bool crosses_processes(const HostedMesh& hosted, const RemoteGroupRequest& request);

/// The groups of a request before its values have addresses. A process needs the result of each copy that it computes,
/// in the group of the copy's first hosted position. It reads the inputs that it has from its own memory, and gets each
/// other input from the process that hosts the member's position. Copies whose results are the same for all members
/// (all_reduce, all_gather) are one member with several destinations. Takes time and memory in proportion to the number
/// of positions, not to that of pairs of processes, where the processes host blocks of the mesh.
class RemoteGroupPlan {
 public:
  RemoteGroupPlan(const HostedMesh& hosted, const RemoteGroupRequest& request);

  /// Returns the groups in which this process takes part, ordered by base. The functions return the address of a hosted
  /// position's input, and of its result; they are called once for each copy that is needed.
  std::vector<RemoteGroup> groups(const std::function<const std::byte*(int64_t position)>& input,
                                  const std::function<std::byte*(int64_t position)>& result) const;

  /// Returns process groups over which the collective's groups are spread evenly, or null if there are none. Each
  /// process is then in exactly one process group, and the processes of each group form one of them: all of them supply
  /// inputs to all others and need results, equally many each if these are gathered (inputs) or scattered (results).
  /// Such a group's collective can run as one collective of the process group, in which each process contributes its
  /// members. The process groups are ordered by their first groups. There are none for kinds that neither sum nor
  /// gather.
  const std::shared_ptr<const ProcessGroups>& process_groups() const { return process_groups_; }

 private:
  using Consumers = std::vector<RemoteGroup::Consumer>;
  /// A member and a hosted position that has its input, or needs its result.
  using MemberPosition = std::pair<int64_t, int64_t>;
  struct Group {
    int64_t base = 0;
    std::shared_ptr<const Consumers> consumers;
    std::vector<MemberPosition> inputs, results;  ///< ascending
  };
  class Planner;

  RemoteGroupRequest request_;
  size_t members_ = 0;
  std::vector<Group> groups_;
  std::shared_ptr<const ProcessGroups> process_groups_;
};

/// The plans of all requests of a run. A program has few different ones, which its collectives share.
class RemoteGroupPlans {
 public:
  explicit RemoteGroupPlans(HostedMesh hosted) : hosted_(std::move(hosted)) {}

  const HostedMesh& hosted() const { return hosted_; }
  const RemoteGroupPlan& of(const RemoteGroupRequest& request) {
    const auto found = plans_.find(request);
    return found != plans_.end() ? found->second
                                 : plans_.emplace(request, RemoteGroupPlan(hosted_, request)).first->second;
  }

 private:
  HostedMesh hosted_;
  std::map<RemoteGroupRequest, RemoteGroupPlan> plans_;
};

}  // namespace mtf
