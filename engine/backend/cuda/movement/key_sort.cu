#include <bit>

#include "engine/backend/cuda/device/element_walk.h"
#include "engine/backend/cuda/device/scan.h"
#include "engine/backend/cuda/movement/key_sort.h"
#include "engine/base/check.h"

namespace mtf::cuda {
namespace {

constexpr int kMostBits = 8;
constexpr int kDigits = 1 << kMostBits;  ///< the most digits; each has one thread of a block
/// The keys of a thread, and of a block.
constexpr int kEach = 16;
constexpr int64_t kTile = kThreads * kEach;
static_assert(kDigits == kThreads);

/// One digit of the keys of a tile. Each warp has a contiguous part of the tile and its own counts.
struct TileDigits {
  const uint32_t* keys;
  int64_t count;
  int shift, bits;

  MTF_DEVICE int64_t index(const Block& block, int e) const {
    return block.index() * kTile + (block.warp() * kEach + e) * kWarp + block.lane();
  }
  MTF_DEVICE uint32_t digit(uint32_t key) const { return key >> shift & ((1u << bits) - 1); }

  /// counts[warp][digit] = number of the warp's keys with this digit. Calls visit(e, i, key, rank) for the
  /// thread's keys: key i is the rank-th with its digit in the warp.
  template <class Visit>
  MTF_DEVICE void count_keys(const Block& block, uint32_t* counts, const Visit& visit) const {
    uint32_t* mine = counts + block.warp() * kDigits;
    for (int d = block.lane(); d < kDigits; d += kWarp) mine[d] = 0;
    block.sync_warp();
    MTF_UNROLL(kEach)
    for (int e = 0; e < kEach; ++e) {
      const int64_t i = index(block, e);
      const bool there = i < count;
      const uint32_t key = there ? keys[i] : 0, d = digit(key);
      const uint32_t peers = lanes_with(block, d, there);
      const int before = count_bits(peers & ((1u << block.lane()) - 1));
      const uint32_t counted = mine[d];
      block.sync_warp();
      if (there && before == 0) mine[d] = counted + static_cast<uint32_t>(count_bits(peers));
      block.sync_warp();
      if (there) visit(e, i, key, counted + static_cast<uint32_t>(before));
    }
    block.sync();
  }

 private:
  /// The lanes that have a key with the same digit.
  MTF_DEVICE uint32_t lanes_with(const Block& block, uint32_t digit, bool there) const {
    uint32_t lanes = block.ballot(there);
    for (int b = 0; b < bits; ++b) {
      const bool set = (digit >> b & 1) != 0;
      const uint32_t with = block.ballot(set);
      lanes &= set ? with : ~with;
    }
    return lanes;
  }
};

/// Computes counts[digit][tile].
struct CountDigits {
  TileDigits tile;
  uint32_t* counts;

  MTF_DEVICE void operator()(const Block& block) const {
    auto* of_warps = block.shared<uint32_t>();
    tile.count_keys(block, of_warps, [](int, int64_t, uint32_t, uint32_t) {});
    uint32_t total = 0;
    for (int warp = 0; warp < kWarps; ++warp) total += of_warps[warp * kDigits + block.thread()];
    counts[block.thread() * block.blocks() + block.index()] = total;
  }
};

/// With one block for each digit, turns counts into sums over the tiles before, and computes totals[digit].
struct AddCounts {
  uint32_t* counts;
  uint32_t* totals;
  int64_t tiles;

  MTF_DEVICE void operator()(const Block& block) const {
    uint32_t* of_digit = counts + block.index() * tiles;
    uint32_t carried = 0;
    for (int64_t begin = 0; begin < tiles; begin += kThreads) {
      const int64_t i = begin + block.thread();
      const Scanned<uint32_t> sums = scan_block(block, i < tiles ? of_digit[i] : 0, block.shared<uint32_t>());
      if (i < tiles) of_digit[i] = carried + sums.before;
      carried += sums.total;
    }
    if (block.thread() == 0) totals[block.index()] = carried;
  }
};

/// Writes the keys of a tile after those with lower digits, and after those with the same digit in earlier
/// tiles and warps.
struct PlaceKeys {
  TileDigits tile;
  const uint32_t *counts, *totals;
  const uint32_t* places;  ///< null: the places are the indices of the keys
  SortedKeys sorted;

  MTF_DEVICE void operator()(const Block& block) const {
    auto* begins = block.shared<uint32_t>();
    uint32_t keys[kEach], ranks[kEach];
    tile.count_keys(block, begins, [&](int e, int64_t, uint32_t key, uint32_t rank) {
      keys[e] = key;
      ranks[e] = rank;
    });
    const int digit = block.thread();
    uint32_t begin = scan_block(block, totals[digit], begins + kWarps * kDigits).before +
                     counts[digit * block.blocks() + block.index()];
    for (int warp = 0; warp < kWarps; ++warp) {
      uint32_t& of_warp = begins[warp * kDigits + digit];
      const uint32_t count = of_warp;
      of_warp = begin;
      begin += count;
    }
    block.sync();
    MTF_UNROLL(kEach)
    for (int e = 0; e < kEach; ++e) {
      const int64_t i = tile.index(block, e);
      if (i >= tile.count) continue;
      const uint32_t to = begins[block.warp() * kDigits + tile.digit(keys[e])] + ranks[e];
      sorted.keys[to] = keys[e];
      sorted.places[to] = places == nullptr ? static_cast<uint32_t>(i) : places[i];
    }
  }
};

}  // namespace

KeySort::KeySort(int64_t count, int64_t largest) : count_(count), tiles_((count + kTile - 1) / kTile) {
  MTF_CHECK(count < int64_t{1} << 32 && largest < int64_t{1} << 32, "{} keys up to {}", count, largest);
  const int bits = std::max(1, static_cast<int>(std::bit_width(static_cast<uint64_t>(largest))));
  passes_ = (bits + kMostBits - 1) / kMostBits;
  bits_ = (bits + passes_ - 1) / passes_;
}

size_t KeySort::scratch_bytes() const {
  return sizeof(uint32_t) * static_cast<size_t>(4 * aligned() + kDigits * (tiles_ + 1));
}

uint32_t* KeySort::keys(std::byte* scratch) const { return reinterpret_cast<uint32_t*>(scratch); }

SortedKeys KeySort::operator()(const Launcher& launch, std::byte* scratch) const {
  uint32_t* first = keys(scratch);
  const SortedKeys halves[] = {{first, first + 2 * aligned()}, {first + aligned(), first + 3 * aligned()}};
  uint32_t *counts = first + 4 * aligned(), *totals = counts + kDigits * tiles_;
  const int64_t of_warps = kWarps * kDigits * static_cast<int64_t>(sizeof(uint32_t));
  const int64_t sums = kWarps * static_cast<int64_t>(sizeof(uint32_t));
  for (int pass = 0; pass < passes_; ++pass) {
    const SortedKeys &from = halves[pass % 2], &to = halves[1 - pass % 2];
    const TileDigits tile{from.keys, count_, pass * bits_, bits_};
    launch(LaunchShape{tiles_, kThreads, of_warps}, CountDigits{tile, counts});
    launch(LaunchShape{kDigits, kThreads, sums}, AddCounts{counts, totals, tiles_});
    launch(LaunchShape{tiles_, kThreads, of_warps + sums},
           PlaceKeys{tile, counts, totals, pass == 0 ? nullptr : from.places, to});
  }
  return halves[passes_ % 2];
}

}  // namespace mtf::cuda
