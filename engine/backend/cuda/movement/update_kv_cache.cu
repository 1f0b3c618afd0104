// update_kv_cache on the device: each hypothesis takes over the cache of its parent. A thread handles one
// word of all hypotheses of a text. Words of other hypotheses are held in the block's memory until all are
// read, so that the cache is updated in place.
#include <algorithm>

#include "engine/backend/broadcast_axes.h"
#include "engine/backend/cuda/device/device_kernel.h"
#include "engine/backend/cuda/device/words.h"
#include "engine/ops/update_kv_cache.h"

namespace mtf::cuda {
namespace {

constexpr int kCopyThreads = 128;
constexpr int64_t kMostShared = 48 << 10;
/// The most blocks if the held words are in scratch because there are too many hypotheses for shared memory.
constexpr int64_t kMostBlocksInScratch = 256;

enum Operand { kCache, kEntry, kPosition, kParent, kPlace };

struct AdvancePlan {
  /// Over a hypothesis: words of cache and entry, position, parent, index along `memory`.
  Strided<5> walk;
  int64_t word = 1;
  int64_t rows = 1;
  int64_t cache_row = 0, entry_row = 0, parent_row = 0;  ///< between hypotheses

  bool shared() const { return waiting_bytes() <= kMostShared; }
  /// The bytes that one block holds.
  int64_t waiting_bytes() const { return rows * kCopyThreads * word; }
  int64_t blocks() const {
    const int64_t blocks = over(walk.size(), 1, kCopyThreads).blocks;
    return shared() ? blocks : std::min(blocks, kMostBlocksInScratch);
  }
  int64_t scratch_bytes() const { return shared() ? 0 : blocks() * waiting_bytes(); }
};

template <class Word>
struct Advance {
  static constexpr int kMaxThreads = kCopyThreads;
  const Word *cache, *entry;
  const int32_t *position, *parent, *common;
  Word *y, *scratch;
  AdvancePlan plan;

  MTF_DEVICE void operator()(const Block& block) const {
    Word* waiting =
        (scratch == nullptr ? block.shared<Word>() : scratch + block.index() * plan.rows * kCopyThreads) +
        block.thread();
    for (int64_t i = block.first(); i < plan.walk.size(); i += block.stride()) {
      const Offsets<5> at = plan.walk.at(i);
      const int64_t place = at[kPlace], end = position[at[kPosition]];
      if (place < end) {
        take_over(place, at[kParent], cache + at[kCache], y + at[kCache], waiting);
      } else {
        for (int64_t row = 0; row < plan.rows; ++row) {
          Word& to = y[at[kCache] + row * plan.cache_row];
          if (place == end) {
            to = entry[at[kEntry] + row * plan.entry_row];
          } else if (cache != y) {
            to = cache[at[kCache] + row * plan.cache_row];
          }
        }
      }
    }
  }

 private:
  MTF_DEVICE void take_over(int64_t place, int64_t first, const Word* from, Word* to, Word* waiting) const {
    const auto parent_of = [&](int64_t row) -> int64_t {
      const int64_t given = parent[first + row * plan.parent_row];
      const bool is_other = given >= 0 && given < plan.rows && place >= common[first + row * plan.parent_row];
      return is_other ? given : row;
    };
    for (int64_t row = 0; row < plan.rows; ++row) {
      const int64_t source = parent_of(row);
      if (cache != y || source != row) waiting[row * kCopyThreads] = from[source * plan.cache_row];
    }
    for (int64_t row = 0; row < plan.rows; ++row) {
      if (cache != y || parent_of(row) != row) to[row * plan.cache_row] = waiting[row * kCopyThreads];
    }
  }
};

std::unique_ptr<Kernel> update_kv_cache_kernel(const KernelContext& context, Device& device) {
  const auto& operation = static_cast<const UpdateKvCache&>(context.operation);
  const LocalTensor& cache = context.inputs[0];
  StridedAxes<5> axes;
  for (const Dimension& d : cache.local) {
    if (d.name == operation.rows) continue;
    StridedAxis<5> axis{d.size, {}};
    for (int n = 0; n < 4; ++n) axis.strides[n] = stride_of(context.inputs[n], d.name);
    axis.strides[kPlace] = d.name == operation.memory ? 1 : 0;
    axes.push_back(axis);
  }
  AdvancePlan plan;
  plan.rows = cache.local.dimension(operation.rows).size;
  plan.cache_row = stride_of(cache, operation.rows);
  plan.entry_row = stride_of(context.inputs[1], operation.rows);
  plan.parent_row = stride_of(context.inputs[3], operation.rows);
  const WordWalk<5> words(axes, 1u << kCache | 1u << kEntry, static_cast<int64_t>(size_of(cache.dtype)),
                          {plan.cache_row, plan.entry_row});
  plan.walk = Strided<5>(words.axes);
  plan.word = words.word;
  plan.cache_row /= words.elements;
  plan.entry_row /= words.elements;
  return make_device_kernel(
      device,
      [=](const Launcher& launch, const KernelCall& call) {
        with_word(plan.word, [&]<class Word>(Word) {
          launch(LaunchShape{plan.blocks(), kCopyThreads, plan.shared() ? plan.waiting_bytes() : 0},
                 Advance<Word>{call.input<Word>(0), call.input<Word>(1), call.input<int32_t>(2),
                               call.input<int32_t>(3), call.input<int32_t>(4), call.output<Word>(0),
                               plan.shared() ? nullptr : reinterpret_cast<Word*>(call.scratch), plan});
        });
      },
      static_cast<size_t>(plan.scratch_bytes()));
}

const DeviceKernelRegistration update_kv_cache_kernels("update_kv_cache", kAllTypes, update_kv_cache_kernel);

}  // namespace
}  // namespace mtf::cuda
