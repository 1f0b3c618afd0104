#include "engine/comm/remote_groups.h"

#include <algorithm>
#include <map>

namespace mtf {
namespace {

/// The results that one process needs of one group.
struct WantedResults {
  std::vector<std::pair<int64_t, int64_t>> copies;  ///< (member, hosted position), ascending
};

/// Returns the results that `hosted` needs, by base of the group.
std::map<int64_t, WantedResults> wanted_results(const HostedMesh& hosted, const RemoteGroupRequest& request) {
  const Mesh& mesh = hosted.mesh();
  const AxisMask others = ~request.axes & mesh.all_axes();
  std::map<int64_t, WantedResults> wanted;
  const HostedCopies copies = hosted.copies(request.computed);
  for (int64_t copy = 0; copy < copies.size(); ++copy) {
    const int64_t position = copies.position(copy);
    const int64_t base = mesh.first_position(mesh.project(position, others), others);
    wanted[base].copies.emplace_back(mesh.project(position, request.axes), position);
  }
  for (auto& [base, results] : wanted) std::sort(results.copies.begin(), results.copies.end());
  return wanted;
}

bool same_for_all_members(Collective::Kind kind) {
  return kind == Collective::Kind::kAllReduce || kind == Collective::Kind::kAllGather;
}

RemoteGroup::Consumer make_consumer(const HostedMesh& hosted, const RemoteGroupRequest& request, int64_t base,
                                    const WantedResults& wanted, const HostedCopies& inputs) {
  RemoteGroup::Consumer consumer;
  consumer.process = hosted.process();
  if (same_for_all_members(request.kind)) {
    consumer.members.push_back(0);
  } else {
    for (const auto& [member, position] : wanted.copies) consumer.members.push_back(member);
  }
  const Mesh& mesh = hosted.mesh();
  for (int64_t member = 0; member < mesh.size_of(request.axes); ++member) {
    const int64_t position = base + mesh.first_position(member, request.axes);
    consumer.suppliers.push_back(inputs.find(position) ? hosted.process() : hosted.host(position));
  }
  return consumer;
}

/// Returns the groups of all processes, by base, without addresses.
std::map<int64_t, RemoteGroup> all_groups(const HostedMesh& hosted, const RemoteGroupRequest& request) {
  std::map<int64_t, RemoteGroup> groups;
  for (int process = 0; process < hosted.processes(); ++process) {
    const HostedMesh other = hosted.of(process);
    const HostedCopies inputs = other.copies(request.stored);
    for (const auto& [base, wanted] : wanted_results(other, request)) {
      RemoteGroup& group = groups[base];
      group.base = base;
      group.consumers.push_back(make_consumer(other, request, base, wanted, inputs));
    }
  }
  return groups;
}

bool takes_part(const RemoteGroup& group, int process) {
  return std::any_of(group.consumers.begin(), group.consumers.end(), [&](const auto& consumer) {
    return consumer.process == process ||
           std::count(consumer.suppliers.begin(), consumer.suppliers.end(), process) > 0;
  });
}

std::vector<int> processes_of(const RemoteGroup& group) {
  std::vector<int> processes;
  for (const RemoteGroup::Consumer& consumer : group.consumers) processes.push_back(consumer.process);
  return processes;
}

bool is_spread_evenly(Collective::Kind kind, const RemoteGroup& group) {
  const RemoteGroup::Consumer& first = group.consumers.front();
  const auto given_by = [&](int process) { return std::ranges::count(first.suppliers, process); };
  int64_t given = 0;
  for (const RemoteGroup::Consumer& consumer : group.consumers) {
    const int64_t members = given_by(consumer.process);
    if (consumer.suppliers != first.suppliers || members == 0) return false;
    if (kind == Collective::Kind::kReduceScatter && consumer.members.size() != first.members.size())
      return false;
    if (kind == Collective::Kind::kAllGather && members != given_by(first.process)) return false;
    given += members;
  }
  return given == std::ssize(first.suppliers);
}

}  // namespace

bool crosses_processes(const HostedMesh& hosted, const RemoteGroupRequest& request) {
  const Mesh& mesh = hosted.mesh();
  for (int process = 0; process < hosted.processes(); ++process) {
    const HostedMesh other = hosted.of(process);
    const HostedCopies inputs = other.copies(request.stored);
    for (const auto& [base, wanted] : wanted_results(other, request)) {
      for (int64_t member = 0; member < mesh.size_of(request.axes); ++member) {
        const int64_t position = base + mesh.first_position(member, request.axes);
        if (!inputs.find(position)) return true;
      }
    }
  }
  return false;
}

std::vector<RemoteGroup> remote_groups(const HostedMesh& hosted, const RemoteGroupRequest& request) {
  const Mesh& mesh = hosted.mesh();
  const HostedCopies inputs = hosted.copies(request.stored);
  const std::map<int64_t, WantedResults> wanted = wanted_results(hosted, request);
  std::vector<RemoteGroup> result;
  for (auto& [base, group] : all_groups(hosted, request)) {
    if (!takes_part(group, hosted.process())) continue;
    for (int64_t member = 0; member < mesh.size_of(request.axes); ++member) {
      const auto copy = inputs.find(base + mesh.first_position(member, request.axes));
      group.inputs.push_back(copy ? request.input(inputs.position(*copy)) : nullptr);
    }
    if (const auto mine = wanted.find(base); mine != wanted.end()) {
      for (const auto& [member, position] : mine->second.copies) {
        if (group.results.empty() || !same_for_all_members(request.kind)) group.results.emplace_back();
        group.results.back().push_back(request.result(position));
      }
    }
    result.push_back(std::move(group));
  }
  return result;
}

std::vector<std::vector<int>> even_process_groups(const HostedMesh& hosted,
                                                  const RemoteGroupRequest& request) {
  using Kind = Collective::Kind;
  if (request.kind == Kind::kAllToAll || request.kind == Kind::kExchange) return {};
  std::vector<std::vector<int>> process_groups;
  std::vector<bool> has_process_group(static_cast<size_t>(hosted.processes()));
  for (const auto& [base, group] : all_groups(hosted, request)) {
    if (!is_spread_evenly(request.kind, group)) return {};
    std::vector<int> process_group = processes_of(group);
    if (process_group.size() == 1) return {};
    if (std::ranges::find(process_groups, process_group) != process_groups.end()) continue;
    for (const int process : process_group) {
      if (has_process_group[static_cast<size_t>(process)]) return {};
      has_process_group[static_cast<size_t>(process)] = true;
    }
    process_groups.push_back(std::move(process_group));
  }
  return std::ranges::find(has_process_group, false) == has_process_group.end()
             ? process_groups
             : std::vector<std::vector<int>>();
}

}  // namespace mtf
