// Plans collectives that the library runs among the processes of a process group: each process adds or packs
// the inputs of its members, and copies the results to their destinations.
#include <algorithm>
#include <numeric>

#include "engine/base/check.h"
#include "engine/comm/device/plan_builder.h"
#include "engine/comm/move_plan.h"
#include "engine/comm/process/moved_segments.h"

namespace mtf {
namespace {

const RemoteGroup::Consumer& own_consumer(const RemoteGroup& group, int process) {
  const auto own = std::ranges::find(*group.consumers, process, &RemoteGroup::Consumer::process);
  MTF_CHECK(own != group.consumers->end(), "process {} has no part in a group of its process group", process);
  return *own;
}

class LibrarySum {
 public:
  LibrarySum(const std::vector<RemotePart>& parts, int process)
      : process_(process), plan_(parts.front().guard != nullptr) {
    DeviceRound& round = plan_.plan().rounds.emplace_back();
    plan_.plan().is_by_library = true;
    for (const RemotePart& part : parts) {
      if (input_bytes(part.collective) == 0) continue;
      for (const RemoteGroup& group : part.groups) {
        if (part.collective.kind == Collective::Kind::kAllReduce) {
          add_all_reduce(part.collective, group, round);
        } else {
          add_reduce_scatter(part.collective, group, round);
        }
      }
    }
    add_copies(plan_.plan().before, std::move(packed_));
    add_copies(round.after, std::move(handed_on_));
  }
  DevicePlan take() { return plan_.take(); }

 private:
  void add_all_reduce(const Collective& c, const RemoteGroup& group, DeviceRound& round) {
    const int64_t bytes = input_bytes(c), element = static_cast<int64_t>(size_of(c.dtype));
    std::vector<std::byte*> places;
    for (const std::vector<std::byte*>& some : group.results)
      places.insert(places.end(), some.begin(), some.end());
    const DeviceTarget result = plan_.is_guarded() ? plan_.reserve(bytes) : DeviceTarget{places.front(), 0};
    const DeviceSource own = own_sum(c, group, [&] { return result; });
    round.calls.push_back({c.kind, own, result, bytes / element, c.dtype});
    copy_result(plan_, result, places, bytes, handed_on_);
    const int64_t size = std::ssize(*group.consumers);
    for (int64_t rank = 0; rank < size; ++rank) {
      const int64_t share =
          share_begin(bytes / element, size, rank + 1) - share_begin(bytes / element, size, rank);
      const bool is_own = (*group.consumers)[static_cast<size_t>(rank)].process == process_;
      plan_.plan().bytes_sent += share * element * (is_own ? size - 1 : 1);
    }
  }

  void add_reduce_scatter(const Collective& c, const RemoteGroup& group, DeviceRound& round) {
    const int64_t bytes = input_bytes(c), element = static_cast<int64_t>(size_of(c.dtype));
    const int64_t part = bytes / c.members();
    const std::vector<std::vector<std::byte*>>& results = group.results;
    const bool is_direct = results.size() == 1 && !plan_.is_guarded();
    const DeviceSource own = own_sum(c, group, [&] { return plan_.reserve(bytes); });
    const DeviceTarget result =
        is_direct ? DeviceTarget{results[0][0], 0} : plan_.reserve(std::ssize(results) * part);
    round.calls.push_back(
        {c.kind, in_order_of_ranks(c, group, own), result, std::ssize(results) * part / element, c.dtype});
    for (size_t i = 0; i < results.size(); ++i)
      copy_result(plan_, result.at(static_cast<int64_t>(i) * part), results[i], part, handed_on_);
    plan_.plan().bytes_sent += (std::ssize(*group.consumers) - 1) * std::ssize(results) * part;
  }

  /// Returns the sum of this process's members: the input of a single member, or a sum at the place that
  /// `place` returns.
  template <class Place>
  DeviceSource own_sum(const Collective& c, const RemoteGroup& group, const Place& place) {
    const std::vector<int>& suppliers = *own_consumer(group, process_).suppliers;
    std::vector<DeviceSum::Operand> operands;
    for (size_t member = 0; member < suppliers.size(); ++member)
      if (suppliers[member] == process_) operands.push_back({{group.inputs[member], 0}, 0});
    if (operands.size() == 1) return operands[0].data;
    const int64_t members = std::ssize(operands);
    const int64_t elements = input_bytes(c) / static_cast<int64_t>(size_of(c.dtype));
    const DeviceTarget sum = place();
    plan_.plan().before.emplace_back(
        DeviceSum{.tree = plan_.add_tree({reduction_tree({members}), c.dtype, c.reduction, true}),
                  .operands = std::move(operands),
                  .part = elements,
                  .size = elements,
                  .result = sum});
    return sum;
  }

  /// Returns the sum with its parts in the order of the ranks: the parts of the members whose results each
  /// rank needs.
  DeviceSource in_order_of_ranks(const Collective& c, const RemoteGroup& group, const DeviceSource& sum) {
    std::vector<int64_t> order;
    for (const RemoteGroup::Consumer& consumer : *group.consumers)
      order.insert(order.end(), consumer.members.begin(), consumer.members.end());
    const AxisExtent extent(c.input, c.dimension);
    const int64_t part = extent.size / c.members() * extent.inner * static_cast<int64_t>(size_of(c.dtype));
    std::vector<int64_t> ascending(static_cast<size_t>(c.members()));
    std::iota(ascending.begin(), ascending.end(), 0);
    if (extent.outer == 1 && order == ascending) return sum;
    const DeviceTarget packed = plan_.reserve(std::ssize(order) * extent.outer * part);
    for (size_t begin = 0, end = 0; begin < order.size(); begin = end) {
      for (end = begin + 1; end < order.size() && order[end] == order[end - 1] + 1;) ++end;
      const Segment runs{static_cast<int64_t>(end - begin), extent.outer, part};
      packed_.copies.push_back({.runs = runs,
                                .from = sum,
                                .from_places = {order[begin] * part, part, part * c.members()},
                                .to = packed.at(static_cast<int64_t>(begin) * extent.outer * part),
                                .to_places = dense(runs)});
    }
    return packed;
  }

  const int process_;
  PlanBuilder plan_;
  DeviceCopies packed_, handed_on_;
};

/// Gathers each group by a call of its own. The members' inputs of a process are contiguous or are packed;
/// the result comes in the order of the ranks.
class LibraryGather {
 public:
  LibraryGather(const std::vector<RemotePart>& parts, int process, int processes)
      : process_(process), processes_(processes), plan_(parts.front().guard != nullptr) {
    DeviceRound& round = plan_.plan().rounds.emplace_back();
    plan_.plan().is_by_library = true;
    for (const RemotePart& part : parts) {
      if (input_bytes(part.collective) == 0) continue;
      for (const RemoteGroup& group : part.groups) add(part, group, round);
    }
    add_copies(plan_.plan().before, std::move(packed_));
    add_copies(round.after, std::move(arranged_));
    add_copies(round.after, std::move(handed_on_));
  }
  DevicePlan take() { return plan_.take(); }

 private:
  using Segments = std::vector<MovedSegment>;

  void add(const RemotePart& part, const RemoteGroup& group, DeviceRound& round) {
    RemotePart one{.collective = part.collective, .groups = {group}, .process_groups = {}};
    const std::vector<std::byte*>& places = group.results.front();
    if (!plan_.is_guarded()) one.groups[0].results = {{places.front()}};
    const MovedSegments moved = moved_segments({&one, 1}, process_, processes_);
    std::vector<const Segments*> by_rank;
    for (const RemoteGroup::Consumer& consumer : *group.consumers)
      by_rank.push_back(&moved.from[static_cast<size_t>(consumer.process)]);
    int64_t bytes = 0;
    for (const MovedSegment& segment : *by_rank.front()) bytes += segment.runs.bytes();
    const bool is_in_place = !plan_.is_guarded() && are_in_order(by_rank);
    const DeviceTarget gathered =
        is_in_place ? DeviceTarget{places.front(), 0} : plan_.reserve(bytes * std::ssize(*group.consumers));
    round.calls.push_back({part.collective.kind, source(moved.from[static_cast<size_t>(process_)], bytes),
                           gathered, bytes / static_cast<int64_t>(size_of(part.collective.dtype)),
                           part.collective.dtype});
    if (!is_in_place) arrange(by_rank, gathered);
    if (!plan_.is_guarded()) {
      copy_result(plan_, {places.front(), 0}, places,
                  input_bytes(part.collective) * part.collective.members(), handed_on_);
    }
    plan_.plan().bytes_sent += bytes * (std::ssize(*group.consumers) - 1);
  }

  /// True if the data of each rank follows those of the rank before it in the result as well.
  static bool are_in_order(const std::vector<const Segments*>& by_rank) {
    int64_t end = 0;
    for (const Segments* segments : by_rank) {
      for (const MovedSegment& segment : *segments) {
        const int64_t bytes = segment.runs.bytes();
        if (segment.runs.contiguous(segment.targets.front().places, 0, bytes) != end) return false;
        end += bytes;
      }
    }
    return true;
  }

  DeviceSource source(const Segments& own, int64_t bytes) {
    const auto place = own.front().runs.contiguous(own.front().places, 0, own.front().runs.bytes());
    if (own.size() == 1 && place) return {own.front().source.data(), *place};
    const DeviceTarget packed = plan_.reserve(bytes);
    DeviceTarget to = packed;
    for (const MovedSegment& segment : own) {
      packed_.copies.push_back({.runs = segment.runs,
                                .from = DeviceSource{segment.source.data(), 0},
                                .from_places = segment.places,
                                .to = to,
                                .to_places = dense(segment.runs)});
      to = to.at(segment.runs.bytes());
    }
    return packed;
  }

  void arrange(const std::vector<const Segments*>& by_rank, DeviceTarget from) {
    arranged_.is_guarded = plan_.is_guarded();
    for (const Segments* segments : by_rank) {
      for (const MovedSegment& segment : *segments) {
        for (const MovedSegment::Target& target : segment.targets) {
          arranged_.copies.push_back({.runs = segment.runs,
                                      .from = from,
                                      .from_places = dense(segment.runs),
                                      .to = {target.result.data(), 0},
                                      .to_places = target.places});
        }
        from = from.at(segment.runs.bytes());
      }
    }
  }

  const int process_, processes_;
  PlanBuilder plan_;
  DeviceCopies packed_, arranged_, handed_on_;
};

}  // namespace

DevicePlan plan_library_sum(const std::vector<RemotePart>& parts, int process) {
  return LibrarySum(parts, process).take();
}

DevicePlan plan_library_gather(const std::vector<RemotePart>& parts, int process, int processes) {
  return LibraryGather(parts, process, processes).take();
}

}  // namespace mtf
