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

/// Regions with a lifetime of less than 2^kind moments are of this kind or below.
size_t kind_of(const Region& region) {
  return std::bit_width(static_cast<uint64_t>(region.end - region.begin));
}

/// The regions of short lifetimes, ordered by the time at which they begin: few of them are in use during a
/// short lifetime, and they lie side by side.
class ShortLived {
 public:
  /// Regions that have no place yet have a negative offset. They must stay where they are.
  explicit ShortLived(const std::vector<Region>& regions) {
    if (regions.empty()) return;
    int64_t first = regions[0].begin, last = regions[0].end;
    for (const Region& region : regions) {
      first = std::min(first, region.begin);
      last = std::max(last, region.end);
    }
    const int64_t longest = kUsual * (last - first + 1) / static_cast<int64_t>(regions.size());
    kinds_ = std::bit_width(static_cast<uint64_t>(longest));
    for (const Region& region : regions) {
      if (kind_of(region) < kinds_ && region.bytes > 0)
        entries_.push_back({region.begin, region.end, &region});
    }
    std::ranges::sort(entries_, {}, &Entry::begin);
  }

  /// The regions of lower kinds than this one are those of short lifetimes.
  size_t kinds() const { return kinds_; }

  /// Sets `found`, ordered by offset, to the regions that have a place and overlap the short lifetime of
  /// `region`. Returns false if too many begin in that time.
  bool find(const Region& region, std::vector<const Region*>& found) const {
    found.clear();
    const int64_t longest = (int64_t{1} << kinds_ >> 1) - 1;
    const auto from = std::ranges::lower_bound(entries_, region.begin - longest, {}, &Entry::begin);
    const auto to = std::ranges::upper_bound(from, entries_.end(), region.end, {}, &Entry::begin);
    if (to - from > kMost) return false;
    for (auto entry = from; entry != to; ++entry) {
      if (entry->end >= region.begin && entry->region->offset >= 0) found.push_back(entry->region);
    }
    std::ranges::sort(found, {}, &Region::offset);
    return true;
  }

 private:
  static constexpr int64_t kUsual = 64;  ///< regions that begin during the longest of the short lifetimes
  static constexpr int64_t kMost = 8 * kUsual;

  struct Entry {
    int64_t begin, end;
    const Region* region;
  };

  size_t kinds_ = 0;
  std::vector<Entry> entries_;
};

/// Regions grouped by the length of their lifetimes, each group up to twice as long as the one before. Within
/// a group, neighbours in memory mostly begin and end in the same order, which keeps the subtrees
/// homogeneous. Among short lifetimes they do not: there a search by time is faster.
class OffsetsInUse {
 public:
  explicit OffsetsInUse(const std::vector<Region>& regions) : short_lived_(regions) {}

  void add(const Region& region) {
    if (region.bytes == 0) return;
    const size_t kind = kind_of(region);
    if (kinds_.size() <= kind) kinds_.resize(kind + 1);
    kinds_[kind].add(region);
  }

  int64_t lowest_free(const Region& region) {
    const bool by_time = kind_of(region) < short_lived_.kinds() && short_lived_.find(region, found_);
    const size_t first = by_time ? short_lived_.kinds() : 0;
    int64_t offset = 0;
    for (int64_t before = -1; before != offset;) {
      before = offset;
      for (size_t kind = first; kind < kinds_.size(); ++kind)
        offset = kinds_[kind].lowest_free(region, offset);
      if (by_time) offset = lowest_free_of_found(region.bytes, offset);
    }
    return offset;
  }

 private:
  int64_t lowest_free_of_found(int64_t bytes, int64_t offset) const {
    for (const Region* placed : found_) {
      if (placed->offset >= offset + bytes) break;
      offset = std::max(offset, placed->offset + placed->bytes);
    }
    return offset;
  }

  ShortLived short_lived_;
  std::vector<PlacedRegions> kinds_;
  std::vector<const Region*> found_;  ///< of the search in hand, by offset
};

}  // namespace

int64_t place(std::vector<Region>& regions) {
  std::ranges::sort(regions, [](const Region& a, const Region& b) {
    return std::tuple(-a.bytes, a.begin, a.id) < std::tuple(-b.bytes, b.begin, b.id);
  });
  for (Region& region : regions) region.offset = -1;
  OffsetsInUse in_use(regions);
  int64_t total = 0;
  for (Region& region : regions) {
    region.offset = in_use.lowest_free(region);
    in_use.add(region);
    total = std::max(total, region.offset + region.bytes);
  }
  return total;
}

}  // namespace mtf
