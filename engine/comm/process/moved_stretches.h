// What a collective that only moves data takes from which process: all_gather, all_to_all and exchange
// between processes.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "engine/comm/communicator.h"
#include "engine/comm/process/message_plan.h"

namespace mtf {

/// A stretch of one member's input, and the places that it goes to.
struct MovedStretch {
  struct Target {
    std::span<std::byte> result;
    RunPlaces places;
  };
  Stretch runs;
  int64_t member = 0;
  RunPlaces places;                   ///< in the input
  std::span<const std::byte> source;  ///< where the input is in this process
  std::vector<Target> targets;        ///< where the results are in this process
};

/// Of one process, with as many processes in all.
struct MovedStretches {
  /// By peer, in the order in which they travel, which is the same at both ends. Those to and from itself are
  /// in `from`.
  std::vector<std::vector<MovedStretch>> to, from;
  /// What becomes zero.
  struct Zeros {
    Stretch runs;
    MovedStretch::Target target;
  };
  std::vector<Zeros> zeros;
};

MovedStretches moved_stretches(std::span<const RemotePart> parts, int process, int processes);

}  // namespace mtf
