// Divides the data of a collective between processes into messages. Both ends of a message call these pure
// functions with the same arguments.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "engine/comm/tree_sum.h"
#include "engine/core/dtype.h"

namespace mtf {

/// The places of a segment's runs: run k of row i begins at begin + i * row + k * step (bytes).
struct SegmentStrides {
  int64_t begin = 0, row = 0, step = 0;

  friend bool operator==(const SegmentStrides&, const SegmentStrides&) = default;
};

/// A strided block of bytes: rows * count runs of `length` bytes each. In a message the runs are contiguous.
struct Segment {
  int64_t rows = 1, count = 1, length = 0;

  int64_t bytes() const { return rows * count * length; }
  int64_t place(const SegmentStrides& places, int64_t run) const {
    return places.begin + run / count * places.row + run % count * places.step;
  }
  /// Calls visit(run, first byte within the run, number of bytes) for the bytes [begin, end) of the message.
  template <class Visit>
  void visit_runs(int64_t begin, int64_t end, const Visit& visit) const {
    while (begin < end) {
      const int64_t first = begin % length, bytes = std::min(length - first, end - begin);
      visit(begin / length, first, bytes);
      begin += bytes;
    }
  }
  /// Returns the place of the bytes [begin, end) of the message if they are contiguous there as well.
  std::optional<int64_t> contiguous(const SegmentStrides& places, int64_t begin, int64_t end) const;

  friend bool operator==(const Segment&, const Segment&) = default;
};

/// pack() copies bytes [begin, end) of a message from the runs at `places` of `source`; unpack() copies them
/// to the runs at `places` of `result`.
void pack(const Segment& segment, const SegmentStrides& places, const std::byte* source, int64_t begin,
          int64_t end, std::byte* message);
void unpack(const Segment& segment, const SegmentStrides& places, std::byte* result, int64_t begin,
            int64_t end, const std::byte* message);

/// Sequences of at least this many bytes get messages of their own, which are sent from and received into
/// their place if possible.
inline constexpr int64_t kAloneBytes = 64 << 10;

/// Units [begin, end) of sequence `sequence`.
struct MessageSlice {
  int64_t sequence = 0, begin = 0, end = 0;

  friend bool operator==(const MessageSlice&, const MessageSlice&) = default;
};

/// Divides sequences of these lengths, which follow each other, into messages of at most `most` units. A
/// sequence of at least `alone` units shares no message with others, so that it may be sent from its place.
std::vector<std::vector<MessageSlice>> cut_messages(std::span<const int64_t> lengths, int64_t most,
                                                    int64_t alone);

/// Returns the first element of share `share` of `shares` equal shares, which differ by at most one element.
int64_t share_begin(int64_t elements, int64_t shares, int64_t share);

/// Returns, for each process, the largest subtrees whose members it alone supplies to the owner of some
/// elements; the owner gets member m from suppliers[m]. The nodes of inner subtrees come first (they are sent
/// in the accumulator's type), then leaves.
std::map<int, std::vector<int>> supplied_subtrees(const std::vector<TreeNode>& tree,
                                                  const std::vector<int>& suppliers);

/// Returns the bytes of one element in a message of these subtrees.
int64_t element_bytes(const std::vector<TreeNode>& tree, const std::vector<int>& nodes, DType dtype);

/// The tree as the owner evaluates it, in which the subtrees that others send are leaves.
struct OwnerTree {
  struct Operand {
    int supplier = 0;
    int node = 0;         ///< node of the whole tree
    int64_t member = -1;  ///< member of the whole tree, if the node is a leaf
  };
  std::vector<TreeNode> tree;  ///< TreeNode::member is the index of the operand
  std::vector<Operand> operands;
};
OwnerTree owner_tree(const std::vector<TreeNode>& tree, const std::vector<int>& suppliers, int owner);

/// The subtree at a node as a tree of its own.
struct Subtree {
  std::vector<TreeNode> tree;    ///< TreeNode::member is the index in `members`
  std::vector<int64_t> members;  ///< members of the whole tree
};
Subtree subtree(const std::vector<TreeNode>& tree, int node);

enum class MessagePhase : uint8_t { kContribution, kResult, kMove, kGatherLength, kGatherBytes };

/// Returns 24 bits of a tag that distinguish the messages from one process to another within a collective:
/// the low 8 bits of their number, and 16 bits of a hash of everything on which both ends must agree.
uint32_t message_mark(int64_t number, MessagePhase phase, int64_t bytes, DType dtype);
/// Returns the tag of a message; `sequence` is that of the collective.
inline uint64_t message_tag(uint64_t sequence, uint32_t mark) {
  return uint64_t{0x40} << 56 | (sequence & 0xffffffffu) << 24 | mark;
}

}  // namespace mtf
