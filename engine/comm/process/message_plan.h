// How the data of a collective between processes becomes messages: pure functions, which both ends of a
// message call with the same arguments.
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

/// Where the runs of a segment begin: run k of row i at begin + i * row + k * step (bytes).
struct SegmentStrides {
  int64_t begin = 0, row = 0, step = 0;

  friend bool operator==(const SegmentStrides&, const SegmentStrides&) = default;
};

/// rows * count runs of `length` bytes each. In a message they follow each other.
struct Segment {
  int64_t rows = 1, count = 1, length = 0;

  int64_t bytes() const { return rows * count * length; }
  int64_t place(const SegmentStrides& places, int64_t run) const {
    return places.begin + run / count * places.row + run % count * places.step;
  }
  /// Calls visit(run, byte of the run, number of bytes) for the bytes [begin, end) of the message.
  template <class Visit>
  void visit_runs(int64_t begin, int64_t end, const Visit& visit) const {
    while (begin < end) {
      const int64_t first = begin % length, bytes = std::min(length - first, end - begin);
      visit(begin / length, first, bytes);
      begin += bytes;
    }
  }
  /// The place of the bytes [begin, end) of the message if they follow each other there too.
  std::optional<int64_t> contiguous(const SegmentStrides& places, int64_t begin, int64_t end) const;

  friend bool operator==(const Segment&, const Segment&) = default;
};

/// Bytes of a message from runs at `places` of `source`, or to those of `result`.
void pack(const Segment& segment, const SegmentStrides& places, const std::byte* source, int64_t begin,
          int64_t end, std::byte* message);
void unpack(const Segment& segment, const SegmentStrides& places, std::byte* result, int64_t begin,
            int64_t end, const std::byte* message);

/// Sequences of data from this size on are sent from and received into their place where they can be.
inline constexpr int64_t kAloneBytes = 64 << 10;

/// Units [begin, end) of sequence number `sequence`.
struct MessageSlice {
  int64_t sequence = 0, begin = 0, end = 0;

  friend bool operator==(const MessageSlice&, const MessageSlice&) = default;
};

/// Cuts sequences of these lengths, one after the other, into messages of at most `most` units. One with at
/// least `alone` shares no message with others, so that it may be sent from where it stands.
std::vector<std::vector<MessageSlice>> cut_messages(std::span<const int64_t> lengths, int64_t most,
                                                    int64_t alone);

/// First element of the share number `share` of `shares` equal ones; they differ by at most one element.
int64_t share_begin(int64_t elements, int64_t shares, int64_t share);

/// By process: what it gives to the owner of some elements, who gets member m from suppliers[m]: the largest
/// subtrees whose members it supplies alone. Nodes of the tree: inner ones first (they travel in the
/// accumulator's type), then leaves.
std::map<int, std::vector<int>> supplied_subtrees(const std::vector<TreeNode>& tree,
                                                  const std::vector<int>& suppliers);

/// Bytes for one element in a message of these subtrees.
int64_t element_bytes(const std::vector<TreeNode>& tree, const std::vector<int>& nodes, DType dtype);

/// The tree as the owner adds it: what others send are leaves.
struct OwnerTree {
  struct Operand {
    int supplier = 0;
    int node = 0;         ///< of the whole tree
    int64_t member = -1;  ///< of a leaf of the whole tree
  };
  std::vector<TreeNode> tree;  ///< TreeNode::member: index of the operand
  std::vector<Operand> operands;
};
OwnerTree owner_tree(const std::vector<TreeNode>& tree, const std::vector<int>& suppliers, int owner);

/// The subtree at `node` as a tree of its own.
struct Subtree {
  std::vector<TreeNode> tree;    ///< TreeNode::member: index in `members`
  std::vector<int64_t> members;  ///< of the whole tree
};
Subtree subtree(const std::vector<TreeNode>& tree, int node);

enum class MessagePhase : uint8_t { kContribution, kResult, kMove, kGatherLength, kGatherBytes };

/// 24 bits of a tag that tell the messages from one process to another within a collective apart: the low 8
/// bits of their number, and 16 of a hash of all that both ends have to agree about.
uint32_t message_mark(int64_t number, MessagePhase phase, int64_t bytes, DType dtype);
/// `sequence`: of the collective.
inline uint64_t message_tag(uint64_t sequence, uint32_t mark) {
  return uint64_t{0x40} << 56 | (sequence & 0xffffffffu) << 24 | mark;
}

}  // namespace mtf
