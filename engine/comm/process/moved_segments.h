// What a collective that only moves data takes from which process: all_gather, all_to_all and exchange
// between processes.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "engine/comm/communicator.h"
#include "engine/comm/process/message_plan.h"

namespace mtf {

/// A segment of one member's input, and the places that it goes to.
struct MovedSegment {
  struct Target {
    std::span<std::byte> result;
    SegmentStrides places;
  };
  Segment runs;
  int64_t member = 0;
  SegmentStrides places;              ///< in the input
  std::span<const std::byte> source;  ///< where the input is in this process
  std::vector<Target> targets;        ///< where the results are in this process
};

/// Of one process, with as many processes in all.
struct MovedSegments {
  /// By peer, in the order in which they travel, which is the same at both ends. Those to and from itself are
  /// in `from`.
  std::vector<std::vector<MovedSegment>> to, from;
  /// What becomes zero.
  struct Zeros {
    Segment runs;
    MovedSegment::Target target;
  };
  std::vector<Zeros> zeros;
};

MovedSegments moved_segments(std::span<const RemotePart> parts, int process, int processes);

}  // namespace mtf
