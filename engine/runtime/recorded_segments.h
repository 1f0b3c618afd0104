// RecordedSegments runs the segments of a program on a device that can record what is enqueued and replay it.
// Collectives between processes that the host starts and awaits are run between the recordings. What cannot be
// recorded is enqueued in each run.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/comm/communicator.h"
#include "engine/runtime/prepared_program.h"

namespace mtf {

/// Work of one run of a program, summed over positions.
struct Work {
  double flops = 0;               ///< FLOPs of contractions
  double bytes = 0;               ///< moved by collectives
  double bytes_to_processes = 0;  ///< the part of `bytes` that this process sends to other processes

  Work operator+(const Work& other) const {
    return {flops + other.flops, bytes + other.bytes, bytes_to_processes + other.bytes_to_processes};
  }
  Work operator-(const Work& other) const {
    return {flops - other.flops, bytes - other.bytes, bytes_to_processes - other.bytes_to_processes};
  }
};

class RecordedSegments {
 public:
  /// The arguments must outlive this object. Collectives of a communicator on the device are recorded, too;
  /// then each process must construct it and run it as often as the others.
  RecordedSegments(Backend& backend, Communicator& communicator, std::span<const PreparedSegment> segments);
  using Enqueue = std::function<void(std::span<const PreparedSegment>)>;
  /// Calls enqueue(segments) for consecutive parts of the segments; it adds to `work`. The first run only
  /// enqueues, because libraries load what they need. The second run is recorded; it and all later ones are
  /// replayed.
  void run(const Enqueue& enqueue, Work& work);
  /// The number of nodes in all recordings; 0 before there are any.
  int64_t nodes() const;

 private:
  struct Segment {
    std::span<const PreparedSegment> segments;
    bool is_recordable = false;
    std::unique_ptr<Recording> recording;
    Work work;  ///< work of one replay
  };
  /// Records the segment, or leaves it to be enqueued from now on.
  void record(Segment& segment, const Enqueue& enqueue, Work& work);
  /// True if `here` is true in all processes. Those of a collective must record it all, or none of them.
  bool is_everywhere(bool here);

  Backend& backend_;
  Communicator& communicator_;
  std::vector<Segment> segments_;
  bool has_run_ = false;
};

}  // namespace mtf
