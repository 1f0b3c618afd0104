// Segments of a program on a device that keeps recordings: what is enqueued is recorded and replayed.
// Collectives between processes that the host starts and awaits lie between recordings.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/runtime/prepared_program.h"

namespace mtf {

/// Done in one run of a program, summed over positions.
struct Work {
  double flops = 0;               ///< of contractions
  double bytes = 0;               ///< sent in collectives
  double bytes_to_processes = 0;  ///< of them, to other processes

  Work operator+(const Work& other) const {
    return {flops + other.flops, bytes + other.bytes, bytes_to_processes + other.bytes_to_processes};
  }
  Work operator-(const Work& other) const {
    return {flops - other.flops, bytes - other.bytes, bytes_to_processes - other.bytes_to_processes};
  }
};

class RecordedSegments {
 public:
  /// The segments must outlive it. `all_enqueue`: collectives between processes do, too.
  RecordedSegments(Backend& backend, std::span<const PreparedSegment> segments, bool all_enqueue);
  /// Calls enqueue(segments) for parts of them in their order, which adds to `work`. The first run enqueues
  /// (libraries load what they need), the second is recorded, and replayed like all later ones.
  void run(const std::function<void(std::span<const PreparedSegment>)>& enqueue, Work& work);

 private:
  struct Segment {
    std::span<const PreparedSegment> segments;
    bool is_recordable = false;
    std::unique_ptr<Recording> recording;
    Work work;  ///< of the recording
  };
  Backend& backend_;
  std::vector<Segment> segments_;
  bool has_run_ = false;
};

}  // namespace mtf
