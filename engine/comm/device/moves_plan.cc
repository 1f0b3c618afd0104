// What goes from one process to another in a collective that only moves data.
#include "engine/comm/device/plan_builder.h"
#include "engine/comm/process/moved_stretches.h"

namespace mtf {
namespace {

class DeviceMoves {
 public:
  DeviceMoves(const std::vector<RemotePart>& parts, int process, int processes)
      : stretches_(moved_stretches(parts, process, processes)), plan_(parts.front().guard != nullptr) {
    unpacked_.is_guarded = plan_.is_guarded();
    DeviceRound& round = plan_.plan().rounds.emplace_back();
    DeviceBlocks<DeviceSource> sent;
    DeviceBlocks<DeviceTarget> received;
    for (int peer = 0; peer < processes; ++peer) {
      const auto of_peer = static_cast<size_t>(peer);
      for (const MovedStretch& stretch : stretches_.to[of_peer]) sent[peer].push_back(out(stretch));
      for (const MovedStretch& stretch : stretches_.from[of_peer]) {
        if (peer == process) {
          unpack(stretch, {stretch.source.data(), 0}, stretch.places);
        } else {
          received[peer].push_back(in(stretch));
        }
      }
    }
    plan_.send(sent, round);
    plan_.receive(received, round);
    for (const MovedStretches::Zeros& zeros : stretches_.zeros) write(zeros.runs, {}, {}, zeros.target);
    add_copies(plan_.plan().before, std::move(packed_));
    add_copies(round.after, std::move(unpacked_));
  }
  DevicePlan take() { return plan_.take(); }

 private:
  DeviceBlock<DeviceSource> out(const MovedStretch& stretch) {
    const DeviceSource input{stretch.source.data(), 0};
    DeviceBlock<DeviceSource> block{.bytes = stretch.runs.bytes(), .direct = {}, .stage = {}};
    if (const auto place = stretch.runs.contiguous(stretch.places, 0, block.bytes))
      block.direct = input.at(*place);
    block.stage = [this, &stretch, input](const DeviceTarget& to) {
      packed_.copies.push_back({.runs = stretch.runs,
                                .from = input,
                                .from_places = stretch.places,
                                .to = to,
                                .to_places = dense(stretch.runs)});
    };
    return block;
  }

  DeviceBlock<DeviceTarget> in(const MovedStretch& stretch) {
    DeviceBlock<DeviceTarget> block{.bytes = stretch.runs.bytes(), .direct = {}, .stage = {}};
    const MovedStretch::Target& target = stretch.targets.front();
    const auto place = stretch.runs.contiguous(target.places, 0, block.bytes);
    if (place && stretch.targets.size() == 1 && !plan_.is_guarded())
      block.direct = DeviceTarget{target.result.data(), *place};
    block.stage = [this, &stretch](const DeviceTarget& from) { unpack(stretch, from, dense(stretch.runs)); };
    return block;
  }

  void unpack(const MovedStretch& stretch, const DeviceSource& from, const RunPlaces& places) {
    for (const MovedStretch::Target& target : stretch.targets) write(stretch.runs, from, places, target);
  }
  void write(const Stretch& runs, const std::optional<DeviceSource>& from, const RunPlaces& places,
             const MovedStretch::Target& target) {
    unpacked_.copies.push_back({.runs = runs,
                                .from = from,
                                .from_places = places,
                                .to = {target.result.data(), 0},
                                .to_places = target.places});
  }

  const MovedStretches stretches_;
  PlanBuilder plan_;
  DeviceCopies packed_, unpacked_;
};

}  // namespace

DevicePlan plan_device_moves(const std::vector<RemotePart>& parts, int process, int processes) {
  return DeviceMoves(parts, process, processes).take();
}

}  // namespace mtf
