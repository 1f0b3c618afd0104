// A collective between processes that have a device each, as what is enqueued there: copies and sums of the
// device, and messages in one round or two.
//
//   const DevicePlan plan = plan_on_device(parts, process, processes);
//   enqueue(plan.before);
//   for (const DeviceRound& round : plan.rounds) { send(round); enqueue(round.after); }
//
// Sums of float32 and the like between process groups are left to the library that connects the devices, which rounds
// once for each addition. The others (bfloat16, maxima, which keep NaN, groups that are spread unevenly) are
// made by the owner of each share in the order of the tree: with the bits of one process. Data goes through
// scratch memory where it does not lie together at either end, and where a guard decides later whether it is
// wanted.
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

/// A place in a value, or in the scratch memory of the collective.
template <class Byte>
struct DevicePlace {
  Byte* value = nullptr;  ///< null: scratch memory
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
  std::optional<DeviceSource> from;  ///< none: zeros
  SegmentStrides from_places;
  DeviceTarget to;
  SegmentStrides to_places;
};

/// In no order.
struct DeviceCopies {
  std::vector<DeviceCopy> copies;
  bool is_guarded = false;
};

/// Elements of several places combined, to elements that follow each other.
struct DeviceSum {
  struct Operand {
    DeviceSource data;
    int64_t row = 0;  ///< elements from one part to the next
  };
  size_t tree = 0;  ///< of DevicePlan::trees
  std::vector<Operand> operands;
  int64_t part = 0;  ///< elements that follow each other in the operands
  int64_t size = 0;  ///< elements
  DeviceTarget result;
  bool is_guarded = false;
};

/// One after the other.
using DeviceWork = std::vector<std::variant<DeviceSum, DeviceCopies>>;

struct DeviceRound {
  struct Sent {
    int peer;  ///< process
    DeviceSource data;
    int64_t bytes;
  };
  struct Received {
    int peer;
    DeviceTarget data;
    int64_t bytes;
  };
  /// kAllReduce, kReduceScatter or kAllGather of the library, among the processes of the process group.
  struct Call {
    Collective::Kind kind;
    DeviceSource in;
    DeviceTarget out;
    int64_t count;  ///< elements: all_gather: of an input; else of the result
    DType dtype;
  };
  std::vector<Sent> sent;
  std::vector<Received> received;
  std::vector<Call> calls;
  DeviceWork after;
};

struct DevicePlan {
  /// The order of a sum.
  struct Tree {
    std::vector<TreeNode> nodes;  ///< TreeNode::member: index of the operand
    DType dtype;
    Reduction reduction;
    bool is_rounded;  ///< the result; else it is in the accumulator's type
  };
  bool is_by_library = false;  ///< calls of the library; else messages. The same in all processes.
  std::vector<Tree> trees;
  DeviceWork before;
  std::vector<DeviceRound> rounds;  ///< as many in all processes
  int64_t scratch_bytes = 0;
  int64_t bytes_sent = 0;  ///< to other processes, in all rounds
};

/// The library adds elements of this type without more roundings than additions.
bool library_sums(DType dtype);

/// `parts`: at least one, with the same guard. Addresses are copied, not looked at.
DevicePlan plan_on_device(const std::vector<RemotePart>& parts, int process, int processes);

}  // namespace mtf
