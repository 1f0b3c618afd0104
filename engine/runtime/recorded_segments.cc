#include "engine/runtime/recorded_segments.h"

#include <algorithm>

namespace mtf {
namespace {

/// True if the segment neither starts nor awaits a collective between processes.
bool is_alone(const PreparedSegment& segment) {
  using Kind = PreparedSegment::Kind;
  if (segment.kind == Kind::kDone) return false;
  if (segment.kind == Kind::kRepeat) return std::ranges::all_of(segment.steps[0].body, is_alone);
  return segment.kind == Kind::kLocal || segment.steps[0].pending == nullptr;
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

}  // namespace mtf
