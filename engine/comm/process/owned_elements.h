// Which process owns which elements of a reduction between processes.
#pragma once

#include <span>
#include <vector>

#include "engine/comm/communicator.h"
#include "engine/comm/process/message_plan.h"

namespace mtf {

/// One group of one part.
struct ReducedGroup {
  const Collective* collective = nullptr;
  std::vector<const std::byte*> inputs;  ///< by member; null where this process does not hold it
  /// By result of this process: all places. all_reduce: one result.
  std::vector<std::vector<std::byte*>> results;
};

/// Groups whose members and results are spread over the processes alike: they are reduced as one.
struct ReduceBucket {
  std::vector<RemoteGroup::Consumer> consumers;
  std::vector<ReducedGroup> groups;

  /// Whether this process has a result: the consumer that is it.
  const RemoteGroup::Consumer* consumer(int process) const;
};

/// In the order of their first groups: the same order in all processes.
std::vector<ReduceBucket> reduce_buckets(const std::vector<RemotePart>& parts);

/// Elements that one process owns. Lengths and places count bytes of the element type.
struct OwnedElements {
  size_t group = 0;
  size_t result = 0;  ///< of the owner
  Segment runs;
  SegmentStrides input;   ///< in the members' inputs
  SegmentStrides output;  ///< in the result
};

/// all_reduce: an equal share of the elements of all groups; in each of them it begins and ends at multiples
/// of `unit` elements, or at the end.
std::vector<OwnedElements> owned_elements(const ReduceBucket& bucket, size_t consumer, int64_t unit = 1);

}  // namespace mtf
