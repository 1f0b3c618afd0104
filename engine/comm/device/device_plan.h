// The plan of a collective between processes that each have a device: the copies and sums that are enqueued
// there, and messages in one or two rounds.
//
//   const DevicePlan plan = plan_on_device(parts, process, processes);
//   enqueue(plan.before);
//   for (const DeviceRound& round : plan.rounds) { send(round); enqueue(round.after); }
//
// The library that connects the devices (NCCL) computes the sums of float32, float64 and integers within
// process groups; it rounds once for each addition. Other reductions (bfloat16; maxima, which keep NaN;
// groups that are spread unevenly) are computed by the owner of each share in the order of the tree, with the
// same bits as in one process. Data passes through scratch memory if it is not contiguous at its source or
// destination, or if a guard decides later whether the result is written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "engine/comm/communicator.h"
#include "engine/comm/process/message_plan.h"
#include "engine/comm/tree_sum.h"

namespace mtf {

/// An address relative to a value, or to the scratch memory of the collective.
template <class Byte>
struct DevicePlace {
  Byte* value = nullptr;  ///< null: the scratch memory
  int64_t offset = 0;

  DevicePlace at(int64_t bytes) const { return {value, offset + bytes}; }
  operator DevicePlace<const std::byte>() const { return {value, offset}; }
  Byte* address(Byte* scratch) const { return (value == nullptr ? scratch : value) + offset; }

  friend bool operator==(const DevicePlace&, const DevicePlace&) = default;
};
using DeviceSource = DevicePlace<const std::byte>;
using DeviceTarget = DevicePlace<std::byte>;

struct DeviceCopy {
  Segment runs;
  std::optional<DeviceSource> from;  ///< nothing: zeros are written
  SegmentStrides from_places;
  DeviceTarget to;
  SegmentStrides to_places;
};

/// Copies that are independent of each other: they may run in any order.
struct DeviceCopies {
  std::vector<DeviceCopy> copies;
  bool is_guarded = false;
};

/// Combines elements of several operands into contiguous elements of the result.
struct DeviceSum {
  struct Operand {
    DeviceSource data;
    int64_t row = 0;  ///< distance from one contiguous part to the next, in elements
  };
  size_t tree = 0;  ///< index in DevicePlan::trees
  std::vector<Operand> operands;
  int64_t part = 0;  ///< number of contiguous elements in the operands
  int64_t size = 0;  ///< number of elements
  DeviceTarget result;
  bool is_guarded = false;
};

/// Sums and copies that run one after the other.
using DeviceWork = std::vector<std::variant<DeviceSum, DeviceCopies>>;

struct DeviceRound {
  struct Sent {
    int peer;  ///< index of the process
    DeviceSource data;
    int64_t bytes;
  };
  struct Received {
    int peer;
    DeviceTarget data;
    int64_t bytes;
  };
  /// A call of the library (kAllReduce, kReduceScatter or kAllGather) among the processes of the process
  /// group.
  struct Call {
    Collective::Kind kind;
    DeviceSource in;
    DeviceTarget out;
    int64_t count;  ///< number of elements of the result; all_gather: of an input
    DType dtype;
  };
  std::vector<Sent> sent;
  std::vector<Received> received;
  std::vector<Call> calls;
  DeviceWork after;
};

struct DevicePlan {
  /// The order in which elements are combined.
  struct Tree {
    std::vector<TreeNode> nodes;  ///< TreeNode::member is the index of the operand
    DType dtype;
    Reduction reduction;
    bool is_rounded;  ///< true if the result has the element type, false if it has the accumulator's type
  };
  bool is_by_library = false;  ///< calls of the library instead of messages; the same in all processes
  std::vector<Tree> trees;
  DeviceWork before;
  std::vector<DeviceRound> rounds;  ///< the same number in all processes
  int64_t scratch_bytes = 0;
  int64_t bytes_sent = 0;  ///< sent to other processes in all rounds
};

/// True if the library adds elements of this type with no more roundings than additions.
bool library_sums(DType dtype);

/// Returns the plan for `process`. There must be at least one part, and all parts have the same guard.
/// Addresses are copied, not dereferenced.
DevicePlan plan_on_device(const std::vector<RemotePart>& parts, int process, int processes);

}  // namespace mtf
