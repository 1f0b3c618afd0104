// Buckets of relative positions, from a lookup table of all distances.
#include "engine/ops/relative_bucket.h"

#include <algorithm>

#include "engine/backend/cpu/registry/kernel_registry.h"

namespace mtf {
namespace {

const KernelRegistration relative_bucket_i32(
    "relative_bucket", {DType::kInt32}, [](const KernelContext& context) {
      const auto& bucket = static_cast<const RelativeBucket&>(context.operation).buckets;
      std::vector<int32_t> buckets;
      for (int64_t i = -bucket.max_distance; i <= bucket.max_distance; ++i)
        buckets.push_back(static_cast<int32_t>(bucket(i)));
      const auto farthest = static_cast<int32_t>(bucket.max_distance);
      return make_kernel(context.outputs[0].local.size(), kElementsPerTask,
                         [buckets, farthest](const KernelCall& call, int64_t begin, int64_t end) {
                           const int32_t* relative = call.input<int32_t>(0);
                           int32_t* y = call.output<int32_t>(0);
                           for (int64_t i = begin; i < end; ++i)
                             y[i] = buckets[std::clamp(relative[i], -farthest, farthest) + farthest];
                         });
    });

}  // namespace
}  // namespace mtf
