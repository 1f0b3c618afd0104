#include "engine/comm/process/sent_bytes.h"

#include <map>

#include "engine/comm/process/moved_segments.h"
#include "engine/comm/process/owned_elements.h"

namespace mtf {
namespace {

/// Counts what the process sends to the owners, and its results if all processes need them.
int64_t sent_in_sum(const ReduceBucket& bucket, int process) {
  const Collective& collective = *bucket.groups[0].collective;
  const std::vector<TreeNode> tree = reduction_tree(collective.group);
  const auto element = static_cast<int64_t>(size_of(collective.dtype));
  const std::vector<int64_t> owned = owned_bytes(bucket);
  const int64_t others = std::ssize(owned) - 1;
  const std::vector<int>* suppliers = nullptr;
  int64_t given = 0;  // bytes of one element
  int64_t sent = 0;
  for (size_t c = 0; c < owned.size(); ++c) {
    const RemoteGroup::Consumer& owner = (*bucket.consumers)[c];
    if (owner.process == process) {
      if (collective.kind == Collective::Kind::kAllReduce) sent += owned[c] * others;
      continue;
    }
    if (suppliers != owner.suppliers.get()) {
      suppliers = owner.suppliers.get();
      const std::map<int, std::vector<int>> supplied = supplied_subtrees(tree, *suppliers);
      const auto own = supplied.find(process);
      given = own == supplied.end() ? 0 : element_bytes(tree, own->second, collective.dtype);
    }
    sent += owned[c] / element * given;
  }
  return sent;
}

}  // namespace

int64_t sent_bytes(const std::vector<RemotePart>& parts, int process, int processes) {
  int64_t sent = 0;
  if (parts.empty()) return sent;
  const Collective::Kind kind = parts[0].collective.kind;
  if (kind == Collective::Kind::kAllReduce || kind == Collective::Kind::kReduceScatter) {
    for (const ReduceBucket& bucket : reduce_buckets(parts)) sent += sent_in_sum(bucket, process);
    return sent;
  }
  const MovedSegments segments = moved_segments(parts, process, processes);
  for (int peer = 0; peer < processes; ++peer) {
    if (peer == process) continue;
    for (const MovedSegment& segment : segments.to[static_cast<size_t>(peer)]) sent += segment.runs.bytes();
  }
  return sent;
}

}  // namespace mtf
