#include "engine/runtime/recorded_segments.h"

#include <algorithm>
#include <iterator>
#include <string>

namespace mtf {
namespace {

/// True if the segment neither starts nor awaits a collective between processes.
bool is_alone(const PreparedSegment& segment) {
  if (const auto* loop = std::get_if<LoopStep>(&segment.steps))
    return std::ranges::all_of(loop->body, is_alone);
  const auto* wait = std::get_if<WaitStep>(&segment.steps);
  return !std::holds_alternative<StartStep>(segment.steps) && (wait == nullptr || wait->awaited.empty());
}

/// True if the segment begins a transfer, or awaits one. A recording holds both or neither of them.
bool is_transfer(const PreparedSegment& segment) {
  const auto* wait = std::get_if<WaitStep>(&segment.steps);
  return std::holds_alternative<TransferStep>(segment.steps) || (wait != nullptr && !wait->transfers.empty());
}

}  // namespace

RecordedSegments::RecordedSegments(Backend& backend, Communicator& communicator,
                                   std::span<const PreparedSegment> segments)
    : backend_(backend), communicator_(communicator) {
  const bool records = is_everywhere(backend.submission() == Submission::kRecorded);
  const bool is_whole = communicator.is_on_device() || std::ranges::all_of(segments, is_alone);
  const auto is_recordable = [&](const PreparedSegment& segment) {
    return records && (is_whole || (is_alone(segment) && !is_transfer(segment)));
  };
  for (size_t begin = 0, end = 0; begin < segments.size(); begin = end) {
    const bool recordable = is_recordable(segments[begin]);
    while (end < segments.size() && is_recordable(segments[end]) == recordable) ++end;
    segments_.push_back({segments.subspan(begin, end - begin), recordable, nullptr, {}});
  }
}

void RecordedSegments::run(const Enqueue& enqueue, Work& work) {
  for (Segment& segment : segments_) {
    if (has_run_ && segment.is_recordable && !segment.recording) record(segment, enqueue, work);
    if (segment.recording) {
      segment.recording->replay();
      work = work + segment.work;
    } else {
      enqueue(segment.segments);
    }
  }
  has_run_ = true;
}

void RecordedSegments::record(Segment& segment, const Enqueue& enqueue, Work& work) {
  const Work before = work;
  segment.recording = backend_.record([&] { enqueue(segment.segments); });
  segment.work = work - before;
  work = before;
  segment.is_recordable = is_everywhere(segment.recording != nullptr);
  if (!segment.is_recordable) segment.recording.reset();
}

bool RecordedSegments::is_everywhere(bool here) {
  if (!communicator_.is_on_device()) return here;
  const std::vector<std::string> all = all_gather(communicator_, here ? "yes" : "no", "recordings");
  return std::ranges::count(all, "yes") == std::ssize(all);
}

int64_t RecordedSegments::nodes() const {
  int64_t nodes = 0;
  for (const Segment& segment : segments_) {
    if (segment.recording) nodes += segment.recording->nodes();
  }
  return nodes;
}

}  // namespace mtf
