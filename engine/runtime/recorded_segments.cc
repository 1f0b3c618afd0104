#include "engine/runtime/recorded_segments.h"

#include <algorithm>

namespace mtf {
namespace {

/// The host takes part in none of its steps.
bool is_recordable(const PreparedSegment& segment) {
  using Kind = PreparedSegment::Kind;
  if (segment.kind == Kind::kDone) return false;
  if (segment.kind == Kind::kRepeat) return std::ranges::all_of(segment.steps[0].body, is_recordable);
  return segment.kind == Kind::kLocal || segment.steps[0].pending == nullptr;
}

}  // namespace

RecordedSegments::RecordedSegments(Backend& backend, std::span<const PreparedSegment> segments)
    : backend_(backend) {
  for (size_t begin = 0, end = 0; begin < segments.size(); begin = end) {
    const bool recordable = is_recordable(segments[begin]);
    while (end < segments.size() && is_recordable(segments[end]) == recordable) ++end;
    stretches_.push_back({segments.subspan(begin, end - begin), recordable, nullptr, {}});
  }
}

void RecordedSegments::run(const std::function<void(std::span<const PreparedSegment>)>& enqueue, Work& work) {
  for (Stretch& stretch : stretches_) {
    if (!has_run_ || !stretch.is_recordable) {
      enqueue(stretch.segments);
      continue;
    }
    if (!stretch.recording) {
      const Work before = work;
      stretch.recording = backend_.record([&] { enqueue(stretch.segments); });
      stretch.work = {work.flops - before.flops, work.bytes - before.bytes};
    } else {
      work.flops += stretch.work.flops;
      work.bytes += stretch.work.bytes;
    }
    stretch.recording->replay();
  }
  has_run_ = true;
}

}  // namespace mtf
