#include "engine/comm/process/moved_segments.h"

#include <algorithm>
#include <utility>

#include "engine/comm/move_plan.h"

namespace mtf {
namespace {

class Collector {
 public:
  Collector(int process, int processes) : process_(process) {
    segments_.to.resize(static_cast<size_t>(processes));
    segments_.from.resize(static_cast<size_t>(processes));
  }

  void add(const MovePlan& plan, const RemoteGroup& group) {
    for (const RemoteGroup::Consumer& consumer : group.consumers) {
      const bool mine = consumer.process == process_;
      // Segments from these indices on belong to this group.
      const std::vector<size_t> first = sizes(segments_.from), first_to = sizes(segments_.to);
      for (size_t i = 0; i < consumer.members.size(); ++i) {
        const std::vector<std::byte*> none;
        const std::vector<std::byte*>& results = mine ? group.results[i] : none;
        for (const StridedCopy& piece : plan.of(consumer.members[i])) {
          const int supplier = consumer.suppliers[piece.source];
          if (!mine && supplier != process_) continue;
          if (piece.count * piece.length * plan.rows == 0) continue;
          std::vector<MovedSegment>& list = mine ? segments_.from[supplier] : segments_.to[consumer.process];
          const size_t begin = mine ? first[supplier] : first_to[consumer.process];
          add(plan, piece, group.inputs[piece.source], results, list, begin);
        }
        add_zeros(plan, consumer.members[i], results);
      }
    }
  }

  MovedSegments take() { return std::move(segments_); }

 private:
  static std::vector<size_t> sizes(const std::vector<std::vector<MovedSegment>>& lists) {
    std::vector<size_t> result;
    for (const auto& list : lists) result.push_back(list.size());
    return result;
  }

  /// Adds a segment; if one of the segments from `begin` on has the same bytes, adds its targets to that one,
  /// so that the bytes are sent once.
  static void add(const MovePlan& plan, const StridedCopy& piece, const std::byte* input,
                  const std::vector<std::byte*>& results, std::vector<MovedSegment>& segments, size_t begin) {
    MovedSegment segment;
    segment.runs = {plan.rows, piece.count, piece.length};
    segment.member = piece.source;
    segment.places = {piece.source_begin, plan.source_row, piece.source_step};
    auto known = std::find_if(segments.begin() + static_cast<ptrdiff_t>(begin), segments.end(),
                              [&](const MovedSegment& other) {
                                return other.member == segment.member && other.runs == segment.runs &&
                                       other.places == segment.places;
                              });
    if (known == segments.end()) {
      if (input) segment.source = {input, static_cast<size_t>(plan.rows * plan.source_row)};
      segments.push_back(std::move(segment));
      known = segments.end() - 1;
    }
    for (std::byte* result : results) {
      known->targets.push_back({value_of(plan, result), {piece.begin, plan.result_row, piece.step}});
    }
  }

  void add_zeros(const MovePlan& plan, int64_t member, const std::vector<std::byte*>& results) {
    if (results.empty() || plan.rows == 0) return;
    for (const StridedCopy& piece : plan.zeros(member)) {
      for (std::byte* result : results) {
        segments_.zeros.push_back(
            {{plan.rows, 1, piece.length}, {value_of(plan, result), {piece.begin, plan.result_row, 0}}});
      }
    }
  }

  static std::span<std::byte> value_of(const MovePlan& plan, std::byte* result) {
    return {result, static_cast<size_t>(plan.rows * plan.result_row)};
  }

  const int process_;
  MovedSegments segments_;
};

}  // namespace

MovedSegments moved_segments(std::span<const RemotePart> parts, int process, int processes) {
  Collector collector(process, processes);
  for (const RemotePart& part : parts) {
    const MovePlan plan = plan_moves(part.collective);
    for (const RemoteGroup& group : part.groups) collector.add(plan, group);
  }
  return collector.take();
}

}  // namespace mtf
