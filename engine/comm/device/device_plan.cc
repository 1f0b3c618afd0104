#include "engine/comm/device/device_plan.h"

#include <algorithm>
#include <limits>

#include "engine/base/check.h"
#include "engine/comm/device/plan_builder.h"

namespace mtf {

DeviceTarget PlanBuilder::reserve(int64_t bytes) {
  constexpr int64_t kAlignment = 256;
  const int64_t place = plan_.scratch_bytes;
  plan_.scratch_bytes += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  return {nullptr, place};
}

size_t PlanBuilder::add_tree(DevicePlan::Tree tree) {
  plan_.trees.push_back(std::move(tree));
  return plan_.trees.size() - 1;
}

template <class Place, class Add>
void PlanBuilder::add_messages(const DeviceBlocks<Place>& blocks, const Add& add) {
  for (const auto& [peer, list] : blocks) {
    std::vector<int64_t> lengths;
    for (const DeviceBlock<Place>& block : list) lengths.push_back(block.bytes);
    const auto whole = std::numeric_limits<int64_t>::max();
    for (const std::vector<MessageSlice>& message : cut_messages(lengths, whole, kAloneBytes)) {
      const DeviceBlock<Place>& first = list[static_cast<size_t>(message.front().sequence)];
      if (message.size() == 1 && first.direct) {
        add(peer, *first.direct, first.bytes);
        continue;
      }
      int64_t bytes = 0;
      for (const MessageSlice& slice : message) bytes += slice.end;
      DeviceTarget place = reserve(bytes);
      add(peer, place, bytes);
      for (const MessageSlice& slice : message) {
        list[static_cast<size_t>(slice.sequence)].stage(place);
        place = place.at(slice.end);
      }
    }
  }
}

void PlanBuilder::send(const DeviceBlocks<DeviceSource>& blocks, DeviceRound& round) {
  add_messages(blocks, [&](int peer, const DeviceSource& data, int64_t bytes) {
    round.sent.push_back({peer, data, bytes});
    plan_.bytes_sent += bytes;
  });
}

void PlanBuilder::receive(const DeviceBlocks<DeviceTarget>& blocks, DeviceRound& round) {
  add_messages(blocks, [&](int peer, const DeviceTarget& data, int64_t bytes) {
    round.received.push_back({peer, data, bytes});
  });
}

DeviceCopy copy_of(const DeviceSource& from, const DeviceTarget& to, int64_t bytes) {
  return {.runs = {1, 1, bytes}, .from = from, .from_places = {}, .to = to, .to_places = {}};
}

void copy_result(const PlanBuilder& plan, const DeviceSource& made, const std::vector<std::byte*>& places,
                 int64_t bytes, DeviceCopies& copies) {
  copies.is_guarded = plan.is_guarded();
  if (bytes == 0) return;
  for (std::byte* place : places) {
    if (place != made.value) copies.copies.push_back(copy_of(made, {place, 0}, bytes));
  }
}

void add_copies(DeviceWork& work, DeviceCopies copies) {
  if (!copies.copies.empty()) work.emplace_back(std::move(copies));
}

int64_t input_bytes(const Collective& collective) {
  auto bytes = static_cast<int64_t>(size_of(collective.dtype));
  for (const int64_t size : collective.input) bytes *= size;
  return bytes;
}

bool library_sums(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kFloat64 || dtype == DType::kInt32 ||
         dtype == DType::kInt64;
}

DevicePlan plan_on_device(const std::vector<RemotePart>& parts, int process, int processes) {
  MTF_CHECK(!parts.empty(), "a collective without parts");
  const Collective& first = parts.front().collective;
  const std::shared_ptr<const ProcessGroups>& groups = parts.front().process_groups;
  const bool in_process_groups = groups && std::ranges::all_of(parts, [&](const RemotePart& part) {
                                   const std::shared_ptr<const ProcessGroups>& other = part.process_groups;
                                   return other == groups || (other && *other == *groups);
                                 });
  if (first.kind == Collective::Kind::kAllReduce || first.kind == Collective::Kind::kReduceScatter) {
    const bool by_library =
        in_process_groups && first.reduction == Reduction::kSum && library_sums(first.dtype);
    return by_library ? plan_library_sum(parts, process) : plan_owners_sum(parts, process);
  }
  return in_process_groups ? plan_library_gather(parts, process, processes)
                           : plan_device_moves(parts, process, processes);
}

}  // namespace mtf
