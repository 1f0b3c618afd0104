// The segments that a process sends and receives in a collective between processes that only moves data:
// all_gather, all_to_all and exchange.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/comm/communicator.h"
#include "engine/comm/process/message_plan.h"

namespace mtf {

/// A segment of one member's input, with its destinations.
struct MovedSegment {
  struct Target {
    std::span<std::byte> result;
    SegmentStrides places;
  };
  Segment runs;
  int64_t member = 0;
  SegmentStrides places;              ///< places in the input
  std::span<const std::byte> source;  ///< the input, if this process has it
  std::vector<Target> targets;        ///< the results in this process
};

/// Byte ranges that this process exchanges with each of `processes` peers.
struct MovedSegments {
  /// The segments to and from each peer in the order in which they are sent; both ends have the same order.
  /// Segments from this process to itself are in `from`.
  std::vector<std::vector<MovedSegment>> to, from;
  /// Runs of a result that become zero.
  struct Zeros {
    Segment runs;
    MovedSegment::Target target;
  };
  std::vector<Zeros> zeros;
};

MovedSegments moved_segments(std::span<const RemotePart> parts, int process, int processes);

}  // namespace mtf
