#include "engine/runtime/recorded_segments.h"

#include <algorithm>

namespace mtf {
namespace {

/// True if the segment neither starts nor awaits a collective between processes.
bool is_alone(const PreparedSegment& segment) {
  if (const auto* loop = std::get_if<LoopStep>(&segment.steps))
    return std::ranges::all_of(loop->body, is_alone);
  return !std::holds_alternative<StartStep>(segment.steps) &&
         !std::holds_alternative<WaitStep>(segment.steps);
}

}  // namespace

RecordedSegments::RecordedSegments(Backend& backend, std::span<const PreparedSegment> segments,
                                   bool all_enqueue)
    : backend_(backend) {
  const auto is_recordable = [&](const PreparedSegment& segment) { return all_enqueue || is_alone(segment); };
  for (size_t begin = 0, end = 0; begin < segments.size(); begin = end) {
    const bool recordable = is_recordable(segments[begin]);
    while (end < segments.size() && is_recordable(segments[end]) == recordable) ++end;
    segments_.push_back({segments.subspan(begin, end - begin), recordable, nullptr, {}});
  }
}

void RecordedSegments::run(const std::function<void(std::span<const PreparedSegment>)>& enqueue, Work& work) {
  for (Segment& segment : segments_) {
    if (!has_run_ || !segment.is_recordable) {
      enqueue(segment.segments);
      continue;
    }
    if (!segment.recording) {
      const Work before = work;
      segment.recording = backend_.record([&] { enqueue(segment.segments); });
      segment.work = work - before;
    } else {
      work = work + segment.work;
    }
    segment.recording->replay();
  }
  has_run_ = true;
}

int64_t RecordedSegments::nodes() const {
  int64_t nodes = 0;
  for (const Segment& segment : segments_) {
    if (segment.recording) nodes += segment.recording->nodes();
  }
  return nodes;
}

}  // namespace mtf
