#include "engine/comm/remote_groups.h"

#include <algorithm>
#include <set>
#include <unordered_map>

namespace mtf {
namespace {

bool same_for_all_members(Collective::Kind kind) {
  return kind == Collective::Kind::kAllReduce || kind == Collective::Kind::kAllGather;
}

using Suppliers = std::shared_ptr<const std::vector<int>>;

bool are_equal(const Suppliers& a, const Suppliers& b) { return a == b || *a == *b; }

bool is_spread_evenly(Collective::Kind kind, const std::vector<RemoteGroup::Consumer>& consumers) {
  const RemoteGroup::Consumer& first = consumers.front();
  std::unordered_map<int, int64_t> given_by;
  for (const int process : *first.suppliers) ++given_by[process];
  int64_t given = 0;
  for (const RemoteGroup::Consumer& consumer : consumers) {
    const auto members = given_by.find(consumer.process);
    if (members == given_by.end() || !are_equal(consumer.suppliers, first.suppliers)) return false;
    if (kind == Collective::Kind::kReduceScatter && consumer.members.size() != first.members.size())
      return false;
    if (kind == Collective::Kind::kAllGather && members->second != given_by.at(first.process)) return false;
    given += members->second;
  }
  return given == std::ssize(*first.suppliers);
}

/// The first position of the group that a position is in.
int64_t base_of(const Mesh& mesh, const RemoteGroupRequest& request, int64_t position) {
  const AxisMask others = ~request.axes & mesh.all_axes();
  return mesh.first_position(mesh.project(position, others), others);
}

int64_t position_of(const Mesh& mesh, const RemoteGroupRequest& request, int64_t base, int64_t member) {
  return base + mesh.first_position(member, request.axes);
}

/// True if the process lacks an input of a group in which it computes a result.
bool lacks_input(const HostedMesh& process, const RemoteGroupRequest& request) {
  const Mesh& mesh = process.mesh();
  const HostedCopies results = process.copies(request.computed), inputs = process.copies(request.stored);
  for (int64_t copy = 0; copy < results.size(); ++copy) {
    const int64_t base = base_of(mesh, request, results.position(copy));
    for (int64_t member = 0; member < mesh.size_of(request.axes); ++member) {
      const int64_t position = position_of(mesh, request, base, member);
      const bool has_input = !request.stored.pin || mesh.is_at(position, *request.stored.pin);
      if (has_input && !inputs.find(position)) return true;
    }
  }
  return false;
}

}  // namespace

bool crosses_processes(const HostedMesh& hosted, const RemoteGroupRequest& request) {
  const Mesh& mesh = hosted.mesh();
  if (request.stored.pin || request.computed.pin) {
    // Most often the first process that needs a result tells.
    const int first = hosted.host(mesh.first_position(0, request.computed));
    for (int i = 0; i < hosted.processes(); ++i) {
      if (lacks_input(hosted.of((first + i) % hosted.processes()), request)) return true;
    }
    return false;
  }
  const AxisMask stored = request.stored.axes, of_group = stored & ~request.axes;
  const int64_t members = mesh.size_of(stored & request.axes);
  const int others = hosted.hosts_blocks() ? 1 : hosted.processes();
  for (int process = 0; process < others; ++process) {
    const HostedMesh other = hosted.of(process);
    if (other.size_of(stored) != other.size_of(of_group) * members) return true;
  }
  return false;
}

class RemoteGroupPlan::Planner {
 public:
  Planner(const HostedMesh& hosted, const RemoteGroupRequest& request)
      : hosted_(hosted), mesh_(hosted.mesh()), request_(request), members_(mesh_.size_of(request.axes)) {
    for (int process = 0; process < hosted.processes(); ++process) {
      if (has_results(process)) add_consumer(hosted.of(process));
    }
  }

  std::vector<Group> groups() {
    std::set<int64_t> bases;
    for (int64_t position = hosted_.begin(); position < hosted_.begin() + hosted_.positions(); ++position)
      bases.insert(base_of(position));
    std::map<int64_t, std::vector<MemberPosition>> wanted = wanted_by(hosted_);
    for (const auto& [base, results] : wanted) bases.insert(base);
    const HostedCopies inputs = hosted_.copies(request_.stored);
    std::vector<Group> groups;
    for (const int64_t base : bases) {
      const auto found = consumers_.find(base);
      if (found == consumers_.end() || !takes_part(found->second)) continue;
      Group& group = groups.emplace_back();
      group.base = base;
      group.consumers = std::make_shared<const Consumers>(found->second);
      for (int64_t member = 0; member < members_; ++member) {
        if (const auto copy = inputs.find(position_of(base, member)))
          group.inputs.emplace_back(member, inputs.position(*copy));
      }
      if (const auto mine = wanted.find(base); mine != wanted.end()) group.results = std::move(mine->second);
    }
    return groups;
  }

  std::shared_ptr<const ProcessGroups> process_groups() const {
    using Kind = Collective::Kind;
    if (request_.kind == Kind::kAllToAll || request_.kind == Kind::kExchange) return nullptr;
    constexpr int kNone = -1;
    auto result = std::make_shared<ProcessGroups>();
    std::vector<int> group_of(static_cast<size_t>(hosted_.processes()), kNone);  // by process
    for (const auto& [base, consumers] : consumers_) {
      if (consumers.size() == 1 || !is_spread_evenly(request_.kind, consumers)) return nullptr;
      std::vector<int> processes;
      for (const RemoteGroup::Consumer& consumer : consumers) processes.push_back(consumer.process);
      if (const int known = group_of[static_cast<size_t>(processes.front())]; known != kNone) {
        if ((*result)[static_cast<size_t>(known)] != processes) return nullptr;
        continue;
      }
      for (const int process : processes) {
        int& group = group_of[static_cast<size_t>(process)];
        if (group != kNone) return nullptr;
        group = static_cast<int>(result->size());
      }
      result->push_back(std::move(processes));
    }
    return std::ranges::find(group_of, kNone) == group_of.end() ? result : nullptr;
  }

 private:
  int64_t base_of(int64_t position) const { return mtf::base_of(mesh_, request_, position); }
  int64_t position_of(int64_t base, int64_t member) const {
    return mtf::position_of(mesh_, request_, base, member);
  }

  /// False for a process without a position that has results.
  bool has_results(int process) const {
    const std::optional<Pin>& pin = request_.computed.pin;
    const int64_t begin = process * hosted_.positions();
    for (int64_t position = begin; pin && position < begin + hosted_.positions(); ++position) {
      if (mesh_.is_at(position, *pin)) return true;
    }
    return !pin;
  }

  /// The results that a process needs, by base of the group.
  std::map<int64_t, std::vector<MemberPosition>> wanted_by(const HostedMesh& process) const {
    std::map<int64_t, std::vector<MemberPosition>> wanted;
    const HostedCopies copies = process.copies(request_.computed);
    for (int64_t copy = 0; copy < copies.size(); ++copy) {
      const int64_t position = copies.position(copy);
      wanted[base_of(position)].emplace_back(mesh_.project(position, request_.axes), position);
    }
    for (auto& [base, results] : wanted) std::ranges::sort(results);
    return wanted;
  }

  void add_consumer(const HostedMesh& process) {
    for (const auto& [base, results] : wanted_by(process)) {
      RemoteGroup::Consumer& consumer = consumers_[base].emplace_back();
      consumer.process = process.process();
      if (same_for_all_members(request_.kind)) {
        consumer.members.push_back(0);
      } else {
        for (const auto& [member, position] : results) consumer.members.push_back(member);
      }
      consumer.suppliers = suppliers_of(process, base);
    }
  }

  /// The hosts of the members. Only a process that hosts no block may have an input from another position of its own.
  Suppliers suppliers_of(const HostedMesh& process, int64_t base) {
    Suppliers& hosts = hosts_[base];
    if (!hosts) {
      std::vector<int> of_members;
      of_members.reserve(static_cast<size_t>(members_));
      for (int64_t member = 0; member < members_; ++member)
        of_members.push_back(process.host(position_of(base, member)));
      hosts = shared(std::move(of_members));
    }
    if (process.hosts_blocks()) return hosts;
    std::vector<int> suppliers = *hosts;
    const HostedCopies inputs = process.copies(request_.stored);
    for (int64_t member = 0; member < members_; ++member) {
      if (inputs.find(position_of(base, member))) suppliers[static_cast<size_t>(member)] = process.process();
    }
    return shared(std::move(suppliers));
  }

  /// The one list with these contents.
  Suppliers shared(std::vector<int> suppliers) {
    Suppliers& known = suppliers_[suppliers];
    if (!known) known = std::make_shared<const std::vector<int>>(std::move(suppliers));
    return known;
  }

  /// True if this process is a consumer or a supplier.
  bool takes_part(const Consumers& consumers) const {
    const std::vector<int>* seen = nullptr;
    return std::ranges::any_of(consumers, [&](const RemoteGroup::Consumer& consumer) {
      if (consumer.process == hosted_.process()) return true;
      if (consumer.suppliers.get() == seen) return false;
      seen = consumer.suppliers.get();
      if (const auto& pin = request_.stored.pin; pin && has_axis(request_.axes, pin->axis))
        return (*seen)[static_cast<size_t>(pin->coordinate)] ==
               hosted_.process();  // only one member has an input
      return std::ranges::find(*seen, hosted_.process()) != seen->end();
    });
  }

  const HostedMesh& hosted_;
  const Mesh& mesh_;
  const RemoteGroupRequest& request_;
  const int64_t members_;
  std::map<std::vector<int>, Suppliers> suppliers_;
  std::unordered_map<int64_t, Suppliers> hosts_;  ///< by base
  std::map<int64_t, Consumers> consumers_;        ///< the consumers of all groups, by base
};

RemoteGroupPlan::RemoteGroupPlan(const HostedMesh& hosted, const RemoteGroupRequest& request)
    : request_(request), members_(static_cast<size_t>(hosted.mesh().size_of(request.axes))) {
  Planner planner(hosted, request);
  process_groups_ = planner.process_groups();
  groups_ = planner.groups();
}

std::vector<RemoteGroup> RemoteGroupPlan::groups(
    const std::function<const std::byte*(int64_t position)>& input,
    const std::function<std::byte*(int64_t position)>& result) const {
  std::vector<RemoteGroup> groups;
  for (const Group& planned : groups_) {
    RemoteGroup& group = groups.emplace_back();
    group.base = planned.base;
    group.consumers = planned.consumers;
    group.inputs.resize(members_);
    for (const auto& [member, position] : planned.inputs)
      group.inputs[static_cast<size_t>(member)] = input(position);
    for (const auto& [member, position] : planned.results) {
      if (group.results.empty() || !same_for_all_members(request_.kind)) group.results.emplace_back();
      group.results.back().push_back(result(position));
    }
  }
  return groups;
}

}  // namespace mtf
