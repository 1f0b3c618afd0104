#include "engine/backend/cuda/collectives/nccl_groups.h"

#include <algorithm>

#include "engine/comm/process/message_plan.h"
#include "engine/core/check.h"

namespace mtf::cuda {
namespace {

std::vector<int> processes_of(const RemotePart& part, int process) {
  for (const RemoteGroup& group : part.groups) {
    std::vector<int> processes;
    for (const RemoteGroup::Consumer& consumer : group.consumers) processes.push_back(consumer.process);
    if (std::ranges::find(processes, process) == processes.end()) continue;
    MTF_CHECK(std::ssize(processes) == part.collective.members(), "{} members in {} processes",
              part.collective.members(), processes.size());
    return processes;
  }
  MTF_CHECK(false, "process {} has no position in the collective", process);
}

}  // namespace

NcclGroup nccl_group(std::span<const RemotePart> parts, int process) {
  NcclGroup group;
  for (const RemotePart& part : parts) {
    std::vector<int> processes = processes_of(part, process);
    MTF_CHECK(group.processes.empty() || processes == group.processes, "parts over other mesh dimensions");
    group.processes = std::move(processes);
  }
  const auto own = std::ranges::find(group.processes, process);
  MTF_CHECK(own != group.processes.end(), "a collective without parts");
  group.rank = static_cast<int>(own - group.processes.begin());
  return group;
}

OwnedShare OwnedShare::of(int64_t elements, int64_t element_bytes, int size, int rank) {
  const int64_t unit = 256 / element_bytes, units = (elements + unit - 1) / unit;
  const auto begin = [&](int share) { return std::min(elements, share_begin(units, size, share) * unit); };
  return {begin(rank), begin(rank + 1) - begin(rank)};
}

}  // namespace mtf::cuda
