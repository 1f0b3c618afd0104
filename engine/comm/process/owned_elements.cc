#include "engine/comm/process/owned_elements.h"

#include <algorithm>
#include <numeric>

#include "engine/comm/move_plan.h"

namespace mtf {
namespace {

bool spread_alike(const RemoteGroup::Consumer& a, const RemoteGroup::Consumer& b) {
  return a.process == b.process && a.members == b.members &&
         (a.suppliers == b.suppliers || *a.suppliers == *b.suppliers);
}

int64_t elements_of(const Collective& collective) {
  return std::accumulate(collective.input.begin(), collective.input.end(), int64_t{1}, std::multiplies<>());
}

/// For all_reduce: returns an equal share of the units of all groups, which follow each other.
std::vector<OwnedElements> owned_share(const ReduceBucket& bucket, int64_t consumer, int64_t unit) {
  const auto units_of = [&](const ReducedGroup& group) {
    return (elements_of(*group.collective) + unit - 1) / unit;
  };
  int64_t units = 0;
  for (const ReducedGroup& group : bucket.groups) units += units_of(group);
  const auto shares = static_cast<int64_t>(bucket.consumers->size());
  const int64_t begin = share_begin(units, shares, consumer), end = share_begin(units, shares, consumer + 1);
  std::vector<OwnedElements> owned;
  int64_t first = 0;  // number of units in the groups before
  for (size_t g = 0; g < bucket.groups.size(); ++g) {
    const Collective& collective = *bucket.groups[g].collective;
    const auto bytes = static_cast<int64_t>(size_of(collective.dtype));
    const int64_t last = first + units_of(bucket.groups[g]);
    const auto element = [&](int64_t at) {
      return std::min((std::clamp(at, first, last) - first) * unit, elements_of(collective));
    };
    const int64_t from = element(begin), to = element(end);
    const SegmentStrides places{from * bytes, 0, 0};
    if (from < to) owned.push_back({g, 0, {1, 1, (to - from) * bytes}, places, places});
    first = last;
  }
  return owned;
}

/// For reduce_scatter: returns the parts of the members whose results the consumer needs.
std::vector<OwnedElements> owned_parts(const ReduceBucket& bucket, size_t consumer) {
  std::vector<OwnedElements> owned;
  const std::vector<int64_t>& members = (*bucket.consumers)[consumer].members;
  for (size_t g = 0; g < bucket.groups.size(); ++g) {
    const Collective& collective = *bucket.groups[g].collective;
    const AxisExtent extent(collective.input, collective.dimension);
    const int64_t row = extent.size * extent.inner * static_cast<int64_t>(size_of(collective.dtype));
    const int64_t part = row / collective.members();
    if (extent.outer * part == 0) continue;
    for (size_t i = 0; i < members.size(); ++i) {
      owned.push_back({g, i, {extent.outer, 1, part}, {members[i] * part, row, 0}, {0, part, 0}});
    }
  }
  return owned;
}

}  // namespace

const RemoteGroup::Consumer* ReduceBucket::consumer(int process) const {
  const auto found = std::ranges::find(*consumers, process, &RemoteGroup::Consumer::process);
  return found == consumers->end() ? nullptr : &*found;
}

std::vector<ReduceBucket> reduce_buckets(const std::vector<RemotePart>& parts) {
  std::vector<ReduceBucket> buckets;
  for (const RemotePart& part : parts) {
    for (const RemoteGroup& group : part.groups) {
      const auto fits = [&](const ReduceBucket& bucket) {
        return bucket.groups[0].collective->group == part.collective.group &&
               (bucket.consumers == group.consumers ||
                std::ranges::equal(*bucket.consumers, *group.consumers, spread_alike));
      };
      auto bucket = std::find_if(buckets.begin(), buckets.end(), fits);
      if (bucket == buckets.end()) bucket = buckets.insert(buckets.end(), {group.consumers, {}});
      bucket->groups.push_back({&part.collective, group.inputs, group.results});
      std::vector<std::vector<std::byte*>>& results = bucket->groups.back().results;
      if (part.collective.kind != Collective::Kind::kAllReduce) continue;
      for (size_t i = 1; i < results.size(); ++i) {
        results[0].insert(results[0].end(), results[i].begin(), results[i].end());
      }
      results.resize(std::min<size_t>(1, results.size()));
    }
  }
  return buckets;
}

std::vector<OwnedElements> owned_elements(const ReduceBucket& bucket, size_t consumer, int64_t unit) {
  return bucket.groups[0].collective->kind == Collective::Kind::kAllReduce
             ? owned_share(bucket, static_cast<int64_t>(consumer), unit)
             : owned_parts(bucket, consumer);
}

std::vector<int64_t> owned_bytes(const ReduceBucket& bucket) {
  const auto element = static_cast<int64_t>(size_of(bucket.groups[0].collective->dtype));
  const bool shares = bucket.groups[0].collective->kind == Collective::Kind::kAllReduce;
  int64_t elements = 0;  // of all groups; without shares, of one member's results
  for (const ReducedGroup& group : bucket.groups)
    elements += elements_of(*group.collective) / (shares ? 1 : group.collective->members());
  const int64_t consumers = std::ssize(*bucket.consumers);
  std::vector<int64_t> bytes;
  for (int64_t c = 0; c < consumers; ++c) {
    const int64_t owned = shares
                              ? share_begin(elements, consumers, c + 1) - share_begin(elements, consumers, c)
                              : elements * std::ssize((*bucket.consumers)[static_cast<size_t>(c)].members);
    bytes.push_back(owned * element);
  }
  return bytes;
}

}  // namespace mtf
