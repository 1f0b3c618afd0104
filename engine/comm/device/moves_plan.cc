// Plans collectives that only move data as messages between the processes.
#include "engine/comm/device/plan_builder.h"
#include "engine/comm/process/moved_segments.h"

namespace mtf {
namespace {

class DeviceMoves {
 public:
  DeviceMoves(const std::vector<RemotePart>& parts, int process, int processes)
      : segments_(moved_segments(parts, process, processes)), plan_(parts.front().guard != nullptr) {
    unpacked_.is_guarded = plan_.is_guarded();
    DeviceRound& round = plan_.plan().rounds.emplace_back();
    DeviceBlocks<DeviceSource> sent;
    DeviceBlocks<DeviceTarget> received;
    for (int peer = 0; peer < processes; ++peer) {
      const auto of_peer = static_cast<size_t>(peer);
      for (const MovedSegment& segment : segments_.to[of_peer]) sent[peer].push_back(out(segment));
      for (const MovedSegment& segment : segments_.from[of_peer]) {
        if (peer == process) {
          unpack(segment, {segment.source.data(), 0}, segment.places);
        } else {
          received[peer].push_back(in(segment));
        }
      }
    }
    plan_.send(sent, round);
    plan_.receive(received, round);
    for (const MovedSegments::Zeros& zeros : segments_.zeros) write(zeros.runs, {}, {}, zeros.target);
    add_copies(plan_.plan().before, std::move(packed_));
    add_copies(round.after, std::move(unpacked_));
  }
  DevicePlan take() { return plan_.take(); }

 private:
  DeviceBlock<DeviceSource> out(const MovedSegment& segment) {
    const DeviceSource input{segment.source.data(), 0};
    DeviceBlock<DeviceSource> block{.bytes = segment.runs.bytes(), .direct = {}, .stage = {}};
    if (const auto place = segment.runs.contiguous(segment.places, 0, block.bytes))
      block.direct = input.at(*place);
    block.stage = [this, &segment, input](const DeviceTarget& to) {
      packed_.copies.push_back({.runs = segment.runs,
                                .from = input,
                                .from_places = segment.places,
                                .to = to,
                                .to_places = dense(segment.runs)});
    };
    return block;
  }

  DeviceBlock<DeviceTarget> in(const MovedSegment& segment) {
    DeviceBlock<DeviceTarget> block{.bytes = segment.runs.bytes(), .direct = {}, .stage = {}};
    const MovedSegment::Target& target = segment.targets.front();
    const auto place = segment.runs.contiguous(target.places, 0, block.bytes);
    if (place && segment.targets.size() == 1 && !plan_.is_guarded())
      block.direct = DeviceTarget{target.result.data(), *place};
    block.stage = [this, &segment](const DeviceTarget& from) { unpack(segment, from, dense(segment.runs)); };
    return block;
  }

  void unpack(const MovedSegment& segment, const DeviceSource& from, const SegmentStrides& places) {
    for (const MovedSegment::Target& target : segment.targets) write(segment.runs, from, places, target);
  }
  void write(const Segment& runs, const std::optional<DeviceSource>& from, const SegmentStrides& places,
             const MovedSegment::Target& target) {
    unpacked_.copies.push_back({.runs = runs,
                                .from = from,
                                .from_places = places,
                                .to = {target.result.data(), 0},
                                .to_places = target.places});
  }

  const MovedSegments segments_;
  PlanBuilder plan_;
  DeviceCopies packed_, unpacked_;
};

}  // namespace

DevicePlan plan_device_moves(const std::vector<RemotePart>& parts, int process, int processes) {
  return DeviceMoves(parts, process, processes).take();
}

}  // namespace mtf
