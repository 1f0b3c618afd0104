// Builds the plans of all kinds of collectives between devices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "engine/comm/device/device_plan.h"

namespace mtf {

/// Data that is sent to, or received from, one other process in a round. Place is DeviceSource or
/// DeviceTarget.
template <class Place>
struct DeviceBlock {
  int64_t bytes = 0;
  std::optional<Place> direct;  ///< its place in a value, if it may be sent from or received into it
  /// Plans the copy or sum that writes the data to a place in scratch memory, or the copy that reads it
  /// there.
  std::function<void(DeviceTarget)> stage;
};

/// The blocks of a round for each peer, in the order in which they are sent; both ends have the same order.
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
  /// Plans the messages of a round: large blocks have messages of their own, the others of a peer share one.
  /// Blocks that are not sent from or received into their place are staged.
  void send(const DeviceBlocks<DeviceSource>& blocks, DeviceRound& round);
  void receive(const DeviceBlocks<DeviceTarget>& blocks, DeviceRound& round);

 private:
  template <class Place, class Add>
  void add_messages(const DeviceBlocks<Place>& blocks, const Add& add);

  const bool is_guarded_;
  DevicePlan plan_;
};

/// Returns the strides of `segment` in a message, where its runs are contiguous.
inline SegmentStrides dense(const Segment& segment) {
  return {0, segment.count * segment.length, segment.length};
}
/// Returns a copy of one run of bytes.
DeviceCopy copy_of(const DeviceSource& from, const DeviceTarget& to, int64_t bytes);
/// Copies a result to its destinations, except the one where it is already.
void copy_result(const PlanBuilder& plan, const DeviceSource& made, const std::vector<std::byte*>& places,
                 int64_t bytes, DeviceCopies& copies);
/// Appends `copies` to `work` unless there are none.
void add_copies(DeviceWork& work, DeviceCopies copies);

int64_t input_bytes(const Collective& collective);

// Plans for the library.
DevicePlan plan_library_sum(const std::vector<RemotePart>& parts, int process);
DevicePlan plan_library_gather(const std::vector<RemotePart>& parts, int process, int processes);
// Plans for messages between owners of shares, and for moved data.
DevicePlan plan_owners_sum(const std::vector<RemotePart>& parts, int process);
DevicePlan plan_device_moves(const std::vector<RemotePart>& parts, int process, int processes);

}  // namespace mtf
