#include "engine/runtime/arena_layout.h"

#include <algorithm>
#include <bit>
#include <tuple>

namespace mtf {
namespace {

/// The regions that have an offset, ordered by it, in a treap. A search passes over a whole subtree at once
/// where all of its regions, or none of them, are in use during the searched lifetime.
class PlacedRegions {
 public:
  void add(const Region& region) {
    const int added = static_cast<int>(nodes_.size());
    nodes_.push_back({.offset = region.offset,
                      .bytes = region.bytes,
                      .begin = static_cast<Moment>(region.begin),
                      .end = static_cast<Moment>(region.end)});
    summarize(added);
    root_ = insert(root_, added);
  }

  /// The lowest offset, not below `offset`, at which no region of this set overlaps `region` in both memory
  /// and time.
  int64_t lowest_free(const Region& region, int64_t offset) const {
    pass(root_, region, offset);
    return offset;
  }

 private:
  static constexpr int kNone = -1;

  using Moment = int32_t;  ///< small nodes: a search takes as long as it waits for memory

  struct Node {
    int64_t offset = 0, bytes = 0;  ///< of the region
    Moment begin = 0, end = 0;
    int left = kNone, right = kNone;
    // The following fields summarize the subtree of this node, the node itself included.
    Moment first_begin = 0, last_begin = 0, first_end = 0, last_end = 0;
    int64_t lowest = 0, highest = 0;  ///< offsets at which it begins and ends
    int64_t gap = 0;                  ///< size of the largest gap inside it
  };

  /// As good as random.
  static uint64_t priority(int id) { return (static_cast<uint64_t>(id) + 1) * 0x9E3779B97F4A7C15u; }

  void summarize(int id) {
    Node& node = nodes_[id];
    node.lowest = node.offset;
    node.highest = node.offset + node.bytes;
    node.gap = 0;
    node.first_begin = node.last_begin = node.begin;
    node.first_end = node.last_end = node.end;
    for (const int child : {node.left, node.right}) {
      if (child == kNone) continue;
      const Node& below = nodes_[child];
      const int64_t between = child == node.left ? node.offset - below.highest : below.lowest - node.highest;
      node.gap = std::max({node.gap, below.gap, between});
      node.lowest = std::min(node.lowest, below.lowest);
      node.highest = std::max(node.highest, below.highest);
      node.first_begin = std::min(node.first_begin, below.first_begin);
      node.last_begin = std::max(node.last_begin, below.last_begin);
      node.first_end = std::min(node.first_end, below.first_end);
      node.last_end = std::max(node.last_end, below.last_end);
    }
  }

  int insert(int root, int added) {
    if (root == kNone) return added;
    if (priority(added) > priority(root)) {
      split(root, nodes_[added].offset, nodes_[added].left, nodes_[added].right);
      summarize(added);
      return added;
    }
    Node& node = nodes_[root];
    int& side = nodes_[added].offset <= node.offset ? node.left : node.right;
    side = insert(side, added);
    summarize(root);
    return root;
  }

  void split(int root, int64_t offset, int& before, int& from) {
    if (root == kNone) {
      before = from = kNone;
      return;
    }
    Node& node = nodes_[root];
    if (node.offset < offset) {
      before = root;
      split(node.right, offset, node.right, from);
    } else {
      from = root;
      split(node.left, offset, before, node.left);
    }
    summarize(root);
  }

  void pass(int id, const Region& region, int64_t& offset) const {
    if (id == kNone) return;
    const Node& node = nodes_[id];
    const bool none = node.last_end < region.begin || region.end < node.first_begin;
    if (none || node.highest <= offset || offset + region.bytes <= node.lowest) return;
    const bool all = node.last_begin <= region.end && region.begin <= node.first_end;
    if (all && node.gap < region.bytes) {
      offset = node.highest;
      return;
    }
    pass(node.left, region, offset);
    const bool in_use = node.begin <= region.end && region.begin <= node.end;
    if (in_use && node.offset < offset + region.bytes) offset = std::max(offset, node.offset + node.bytes);
    pass(node.right, region, offset);
  }

  std::vector<Node> nodes_;
  int root_ = kNone;
};

/// Regions grouped by the length of their lifetimes, each group up to twice as long as the one before. Within
/// a group, neighbours in memory mostly begin and end in the same order, which keeps the subtrees
/// homogeneous.
class OffsetsInUse {
 public:
  void add(const Region& region) {
    if (region.bytes == 0) return;
    const size_t kind = std::bit_width(static_cast<uint64_t>(region.end - region.begin));
    if (kinds_.size() <= kind) kinds_.resize(kind + 1);
    kinds_[kind].add(region);
  }

  int64_t lowest_free(const Region& region) const {
    int64_t offset = 0;
    size_t agreeing = 0;  // groups without a conflict since the offset last changed
    for (size_t i = 0; agreeing < kinds_.size(); i = i + 1 == kinds_.size() ? 0 : i + 1) {
      const int64_t next = kinds_[i].lowest_free(region, offset);
      agreeing = next == offset ? agreeing + 1 : 0;
      offset = next;
    }
    return offset;
  }

 private:
  std::vector<PlacedRegions> kinds_;
};

}  // namespace

int64_t place(std::vector<Region>& regions) {
  std::ranges::sort(regions, [](const Region& a, const Region& b) {
    return std::tuple(-a.bytes, a.begin, a.id) < std::tuple(-b.bytes, b.begin, b.id);
  });
  OffsetsInUse in_use;
  int64_t total = 0;
  for (Region& region : regions) {
    region.offset = in_use.lowest_free(region);
    in_use.add(region);
    total = std::max(total, region.offset + region.bytes);
  }
  return total;
}

}  // namespace mtf
