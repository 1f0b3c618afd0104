// What the plans of all kinds of collectives between devices are put together with.
#pragma once

#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "engine/comm/device/device_plan.h"

namespace mtf {

/// Something that goes to or comes from one other process in a round; Place: DeviceSource or DeviceTarget.
template <class Place>
struct DeviceBlock {
  int64_t bytes = 0;
  std::optional<Place> direct;  ///< where all of it is in a value, if it may travel from or to there
  /// Makes it at a place in scratch memory, or takes it from there.
  std::function<void(DeviceTarget)> stage;
};

/// The blocks of a round, by peer and in the order in which they travel, which is the same at both ends.
template <class Place>
using DeviceBlocks = std::map<int, std::vector<DeviceBlock<Place>>>;

class PlanBuilder {
 public:
  explicit PlanBuilder(bool is_guarded) : is_guarded_(is_guarded) {}

  bool is_guarded() const { return is_guarded_; }
  DevicePlan& plan() { return plan_; }
  DevicePlan take() { return std::move(plan_); }

  DeviceTarget reserve(int64_t bytes);
  size_t add_tree(DevicePlan::Tree tree);
  /// Plans the messages, large blocks each alone and the others of a peer together, and what is staged.
  void send(const DeviceBlocks<DeviceSource>& blocks, DeviceRound& round);
  void receive(const DeviceBlocks<DeviceTarget>& blocks, DeviceRound& round);

 private:
  template <class Place, class Add>
  void add_messages(const DeviceBlocks<Place>& blocks, const Add& add);

  const bool is_guarded_;
  DevicePlan plan_;
};

/// Of `segment`, in a message.
inline SegmentStrides dense(const Segment& segment) {
  return {0, segment.count * segment.length, segment.length};
}
/// One run.
DeviceCopy copy_of(const DeviceSource& from, const DeviceTarget& to, int64_t bytes);
/// A result to the further places that it is wanted in, or all from scratch memory where there is a guard.
void copy_result(const PlanBuilder& plan, const DeviceSource& made, const std::vector<std::byte*>& places,
                 int64_t bytes, DeviceCopies& copies);
/// Leaves out what has no copies.
void add_copies(DeviceWork& work, DeviceCopies copies);

int64_t input_bytes(const Collective& collective);

/// Sums of the library.
DevicePlan plan_library_sum(const std::vector<RemotePart>& parts, int process);
DevicePlan plan_library_gather(const std::vector<RemotePart>& parts, int process, int processes);
/// Sums of the owners of shares.
DevicePlan plan_owners_sum(const std::vector<RemotePart>& parts, int process);
DevicePlan plan_device_moves(const std::vector<RemotePart>& parts, int process, int processes);

}  // namespace mtf
