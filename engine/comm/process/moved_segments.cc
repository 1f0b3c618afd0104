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
    const std::vector<int>* suppliers = nullptr;
    bool supplies = false;  // true if this process is one of them
    for (const RemoteGroup::Consumer& consumer : *group.consumers) {
      const bool mine = consumer.process == process_;
      if (suppliers != consumer.suppliers.get()) {
        suppliers = consumer.suppliers.get();
        supplies = std::ranges::find(*suppliers, process_) != suppliers->end();
        sources_.clear();
      }
      if (mine) {
        receive(plan, consumer, group);
      } else if (supplies) {
        send(plan, consumer, group);
      }
    }
  }

  MovedSegments take() { return std::move(segments_); }

 private:
  using Segments = std::vector<MovedSegment>;
  using Results = std::vector<std::byte*>;

  void receive(const MovePlan& plan, const RemoteGroup::Consumer& consumer, const RemoteGroup& group) {
    std::vector<size_t> first;  // segments from these indices on belong to this group
    for (const Segments& list : segments_.from) first.push_back(list.size());
    for (size_t i = 0; i < consumer.members.size(); ++i) {
      const int64_t member = consumer.members[i];
      for (const StridedCopy& piece : plan.of(member)) {
        const auto supplier = static_cast<size_t>((*consumer.suppliers)[static_cast<size_t>(piece.source)]);
        add(plan, piece, group, i, segments_.from[supplier], first[supplier], group.results[i]);
      }
      add_zeros(plan, member, group.results[i]);
    }
  }

  void send(const MovePlan& plan, const RemoteGroup::Consumer& consumer, const RemoteGroup& group) {
    Segments& list = segments_.to[static_cast<size_t>(consumer.process)];
    const size_t first = list.size();
    for (size_t i = 0; i < consumer.members.size(); ++i) {
      for (const StridedCopy* piece : own_pieces(plan, consumer, consumer.members[i]))
        add(plan, *piece, group, i, list, first, {});
    }
  }

  /// The pieces of a member's result that this process supplies. Where all members get the same pieces, all consumers
  /// with these suppliers do.
  const std::vector<const StridedCopy*>& own_pieces(const MovePlan& plan,
                                                    const RemoteGroup::Consumer& consumer, int64_t member) {
    if (plan.pieces.size() > 1) sources_.clear();
    if (sources_.empty()) {
      for (const StridedCopy& piece : plan.of(member))
        if ((*consumer.suppliers)[static_cast<size_t>(piece.source)] == process_) sources_.push_back(&piece);
    }
    return sources_;
  }

  /// Adds a segment of the consumer's member number `i`. If one of the segments from `begin` on has the same bytes, for
  /// another member, adds its targets to that one, so that the bytes are sent once.
  static void add(const MovePlan& plan, const StridedCopy& piece, const RemoteGroup& group, size_t i,
                  Segments& segments, size_t begin, const Results& results) {
    if (piece.count * piece.length * plan.rows == 0) return;
    MovedSegment segment;
    segment.runs = {plan.rows, piece.count, piece.length};
    segment.member = piece.source;
    segment.places = {piece.source_begin, plan.source_row, piece.source_step};
    auto known = segments.end();
    if (i > 0) {
      known = std::find_if(segments.begin() + static_cast<ptrdiff_t>(begin), segments.end(),
                           [&](const MovedSegment& other) {
                             return other.member == segment.member && other.runs == segment.runs &&
                                    other.places == segment.places;
                           });
    }
    if (known == segments.end()) {
      const std::byte* input = group.inputs[static_cast<size_t>(piece.source)];
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
  std::vector<const StridedCopy*> sources_;  ///< own_pieces() of the last consumer
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
