// Decides which process owns which elements of a reduction between processes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/comm/communicator.h"
#include "engine/comm/process/message_plan.h"

namespace mtf {

/// One group of one part.
struct ReducedGroup {
  const Collective* collective = nullptr;
  std::vector<const std::byte*> inputs;  ///< input of each member; null if this process does not have it
  /// The destinations of each result of this process; all_reduce has one result.
  std::vector<std::vector<std::byte*>> results;
};

/// Groups whose members and results are spread over the processes in the same way: they are reduced together.
struct ReduceBucket {
  std::shared_ptr<const std::vector<RemoteGroup::Consumer>> consumers;
  std::vector<ReducedGroup> groups;

  /// Returns the consumer that is `process`, or null if that process has no result.
  const RemoteGroup::Consumer* consumer(int process) const;
};

/// Returns the buckets in the order of their first groups, which is the same in all processes.
std::vector<ReduceBucket> reduce_buckets(const std::vector<RemotePart>& parts);

/// Elements that one process owns. Lengths and places count bytes of the element type.
struct OwnedElements {
  size_t group = 0;
  size_t result = 0;  ///< index of the result at the owner
  Segment runs;
  SegmentStrides input;   ///< places in the members' inputs
  SegmentStrides output;  ///< places in the result
};

/// Returns the elements that a consumer owns. For all_reduce these are an equal share of the elements of all
/// groups; within a group a share begins and ends at multiples of `unit` elements, or at the group's end.
std::vector<OwnedElements> owned_elements(const ReduceBucket& bucket, size_t consumer, int64_t unit = 1);

/// Returns the bytes of the elements that each consumer owns, with a unit of one element.
std::vector<int64_t> owned_bytes(const ReduceBucket& bucket);

}  // namespace mtf
