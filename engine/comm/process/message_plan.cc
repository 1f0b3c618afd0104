#include "engine/comm/process/message_plan.h"

#include <array>
#include <cstring>
#include <string_view>

#include "engine/base/hash.h"

namespace mtf {
namespace {

constexpr int kSeveral = -1;

/// Returns, for each node, the process that supplies all members below it, or kSeveral.
std::vector<int> only_suppliers(const std::vector<TreeNode>& tree, const std::vector<int>& suppliers) {
  std::vector<int> only;  // children come before their parents
  for (const TreeNode& node : tree) {
    if (node.left < 0) {
      only.push_back(suppliers[node.member]);
    } else {
      only.push_back(only[node.left] == only[node.right] ? only[node.left] : kSeveral);
    }
  }
  return only;
}

/// Adds the largest subtrees below `node` that a single process supplies, from left to right.
void largest_subtrees(const std::vector<TreeNode>& tree, const std::vector<int>& only, int node,
                      std::map<int, std::vector<int>>& result) {
  if (only[node] != kSeveral) {
    result[only[node]].push_back(node);
  } else {
    largest_subtrees(tree, only, tree[node].left, result);
    largest_subtrees(tree, only, tree[node].right, result);
  }
}

/// Adds the subtree at `node` to `result`; returns its index there.
int add_owner_node(const std::vector<TreeNode>& tree, const std::vector<int>& only, int owner, int node,
                   OwnerTree& result) {
  const bool leaf = tree[node].left < 0;
  TreeNode added;
  if (leaf || (only[node] != owner && only[node] != kSeveral)) {
    added.member = static_cast<int64_t>(result.operands.size());
    added.added = !leaf;
    result.operands.push_back({only[node], node, tree[node].member});
  } else {
    added.left = add_owner_node(tree, only, owner, tree[node].left, result);
    added.right = add_owner_node(tree, only, owner, tree[node].right, result);
  }
  result.tree.push_back(added);
  return static_cast<int>(result.tree.size()) - 1;
}

}  // namespace

std::optional<int64_t> Segment::contiguous(const SegmentStrides& places, int64_t begin, int64_t end) const {
  const int64_t first = begin / length, last = (end - 1) / length;
  const int64_t place = this->place(places, first) + begin % length;
  const bool row_is_dense = count == 1 || places.step == length;
  const bool one_row = first / count == last / count;
  const bool all_dense = row_is_dense && places.row == count * length;
  if (first == last || (one_row && row_is_dense) || all_dense) return place;
  return std::nullopt;
}

void pack(const Segment& segment, const SegmentStrides& places, const std::byte* source, int64_t begin,
          int64_t end, std::byte* message) {
  segment.visit_runs(begin, end, [&](int64_t run, int64_t first, int64_t bytes) {
    std::memcpy(message, source + segment.place(places, run) + first, static_cast<size_t>(bytes));
    message += bytes;
  });
}

void unpack(const Segment& segment, const SegmentStrides& places, std::byte* result, int64_t begin,
            int64_t end, const std::byte* message) {
  segment.visit_runs(begin, end, [&](int64_t run, int64_t first, int64_t bytes) {
    std::memcpy(result + segment.place(places, run) + first, message, static_cast<size_t>(bytes));
    message += bytes;
  });
}

std::vector<std::vector<MessageSlice>> cut_messages(std::span<const int64_t> lengths, int64_t most,
                                                    int64_t alone) {
  std::vector<std::vector<MessageSlice>> messages;
  int64_t room = 0;  // units left in the last message
  for (int64_t sequence = 0; sequence < static_cast<int64_t>(lengths.size()); ++sequence) {
    const int64_t length = lengths[sequence];
    if (length >= alone) room = 0;
    for (int64_t begin = 0; begin < length;) {
      if (room == 0) {
        messages.emplace_back();
        room = most;
      }
      const int64_t end = std::min(length, begin + room);
      messages.back().push_back({sequence, begin, end});
      room -= end - begin;
      begin = end;
    }
    if (length >= alone) room = 0;
  }
  return messages;
}

int64_t share_begin(int64_t elements, int64_t shares, int64_t share) {
  return elements / shares * share + std::min(share, elements % shares);
}

std::map<int, std::vector<int>> supplied_subtrees(const std::vector<TreeNode>& tree,
                                                  const std::vector<int>& suppliers) {
  std::map<int, std::vector<int>> result;
  largest_subtrees(tree, only_suppliers(tree, suppliers), static_cast<int>(tree.size()) - 1, result);
  for (auto& [supplier, nodes] : result)
    std::stable_partition(nodes.begin(), nodes.end(), [&](int node) { return tree[node].left >= 0; });
  return result;
}

int64_t element_bytes(const std::vector<TreeNode>& tree, const std::vector<int>& nodes, DType dtype) {
  size_t bytes = 0;
  for (int node : nodes) bytes += tree[node].left >= 0 ? accumulator_bytes(dtype) : size_of(dtype);
  return static_cast<int64_t>(bytes);
}

OwnerTree owner_tree(const std::vector<TreeNode>& tree, const std::vector<int>& suppliers, int owner) {
  OwnerTree result;
  add_owner_node(tree, only_suppliers(tree, suppliers), owner, static_cast<int>(tree.size()) - 1, result);
  return result;
}

Subtree subtree(const std::vector<TreeNode>& tree, int node) {
  int first = node;  // the nodes of a subtree are contiguous
  while (tree[first].left >= 0) first = tree[first].left;
  Subtree result;
  for (int i = first; i <= node; ++i) {
    TreeNode& copy = result.tree.emplace_back(tree[i]);
    if (copy.left < 0) {
      copy.member = std::ssize(result.members);
      result.members.push_back(tree[i].member);
    } else {
      copy.left -= first;
      copy.right -= first;
    }
  }
  return result;
}

uint32_t message_mark(int64_t number, MessagePhase phase, int64_t bytes, DType dtype) {
  const std::array<int64_t, 4> facts = {number, static_cast<int64_t>(phase), bytes,
                                        static_cast<int64_t>(dtype)};
  const uint64_t hash = hash64({reinterpret_cast<const char*>(facts.data()), sizeof(facts)});
  return static_cast<uint32_t>((number & 0xff) << 16 | (hash & 0xffff));
}

}  // namespace mtf
