// Buckets of relative positions, from a lookup table of all distances. The table is written as runs of
// distances with the same bucket, so the host's logarithms decide on which side of a boundary a distance
// lies.
#include <algorithm>
#include <vector>

#include "engine/backend/cuda/device/device_kernel.h"
#include "engine/backend/cuda/device/element_walk.h"
#include "engine/ops/relative_bucket.h"

namespace mtf::cuda {
namespace {

/// The entries from `begin` to the next run's begin have this bucket.
struct Run {
  int32_t begin, bucket;
};

/// The number of runs that one launch writes: they are its parameters.
constexpr int kRuns = 128;

struct WriteRuns {
  Run runs[kRuns + 1];  ///< and one that marks the end of the last
  int count;
  int32_t* table;

  MTF_DEVICE void operator()(const Block& block) const {
    for (int run = 0; run < count; ++run) {
      for (int i = runs[run].begin + block.thread(); i < runs[run + 1].begin; i += block.threads())
        table[i] = runs[run].bucket;
    }
  }
};

struct LookUp {
  const int32_t *relative, *table;
  int32_t* y;
  int32_t farthest;
  int64_t size;

  MTF_DEVICE void operator()(const Block& block) const {
    for_each_part<kPack<int32_t>>(block, size, true, [&](int64_t first, bool pack) {
      pack ? look_up<kPack<int32_t>>(first) : look_up<1>(first);
    });
  }
  template <int N>
  MTF_DEVICE void look_up(int64_t first) const {
    Pack<int32_t, N> pack = load<N>(relative + first);
    MTF_UNROLL(N)
    for (int i = 0; i < N; ++i) pack[i] = table[std::min(std::max(pack[i], -farthest), farthest) + farthest];
    store(y + first, pack);
  }
};

/// The runs of a table for distances from -max_distance to max_distance.
std::vector<Run> runs_of(const RelativeBuckets& buckets) {
  std::vector<Run> runs;
  for (int64_t i = -buckets.max_distance; i <= buckets.max_distance; ++i) {
    const auto bucket = static_cast<int32_t>(buckets(i));
    if (runs.empty() || runs.back().bucket != bucket)
      runs.push_back({static_cast<int32_t>(i + buckets.max_distance), bucket});
  }
  runs.push_back({static_cast<int32_t>(2 * buckets.max_distance + 1), 0});
  return runs;
}

const DeviceKernelRegistration relative_bucket_i32(
    "relative_bucket", {DType::kInt32}, [](const KernelContext& context, Device& device) {
      const RelativeBuckets& buckets = static_cast<const RelativeBucket&>(context.operation).buckets;
      const int64_t size = context.outputs[0].local.size();
      const auto farthest = static_cast<int32_t>(buckets.max_distance);
      const auto enqueue = [runs = runs_of(buckets), farthest, size](const Launcher& launch,
                                                                     const KernelCall& call) {
        auto* table = reinterpret_cast<int32_t*>(call.scratch);
        const int count = static_cast<int>(runs.size()) - 1;
        for (int first = 0; first < count; first += kRuns) {
          WriteRuns body{{}, std::min(kRuns, count - first), table};
          std::copy_n(runs.begin() + first, body.count + 1, body.runs);
          launch(LaunchShape{}, body);
        }
        launch(over_packs<kPack<int32_t>>(size),
               LookUp{call.input<int32_t>(0), table, call.output<int32_t>(0), farthest, size});
      };
      return make_device_kernel(device, enqueue,
                                static_cast<size_t>(2 * buckets.max_distance + 1) * sizeof(int32_t));
    });

}  // namespace
}  // namespace mtf::cuda
