// The gradient of attention on the device. First the terms of the rows are computed (attention_rows.h),
// then two loops over tiles of logits follow (attention_backward.h), one that sums over the memory and one
// that sums over queries. There are no atomic additions: each sum has one block and one order. The first loop
// also sums the gradient of the bias for each tile of queries.
#include "engine/backend/cuda/attention/attention_backward.h"
#include "engine/backend/cuda/attention/attention_fma_tiles.h"
#include "engine/backend/cuda/attention/attention_mma.h"
#include "engine/backend/cuda/attention/attention_plan.h"
#include "engine/backend/cuda/attention/attention_rows.h"
#include "engine/backend/cuda/attention/library_attention.h"

namespace mtf::cuda {
namespace {

/// d_bias[group][bucket] = the sum over the group's tiles of queries, in order.
template <class C>
struct SumBucketsOfTiles {
  AttentionView view;
  const C* partial;
  C* d_bias;
  int64_t tiles;
  Divisor buckets;

  SumBucketsOfTiles(const AttentionView& view, const C* partial, C* d_bias, int64_t tiles)
      : view(view),
        partial(partial),
        d_bias(d_bias),
        tiles(tiles),
        buckets(view.bucket_count, view.groups.size() * view.bucket_count) {}
  LaunchShape shape() const { return over(view.groups.size() * view.bucket_count, 1); }

  MTF_DEVICE void operator()(const Block& block) const {
    for (int64_t i = block.first(); i < view.groups.size() * view.bucket_count; i += block.stride()) {
      const auto [group, bucket] = buckets(i);
      C sum = 0;
      for (int64_t tile = 0; tile < tiles; ++tile)
        sum += partial[(group * tiles + tile) * view.bucket_count + bucket];
      d_bias[view.groups.at(group)[AttentionView::kDBias] + bucket] = sum;
    }
  }
};

template <class T>
class AttentionGradientLaunches {
 public:
  using C = Computed<T>;
  using View = AttentionView;

  AttentionGradientLaunches(const KernelContext& context, Device& device)
      : plan_(context, device),
        further_(static_cast<const AttentionOperation&>(context.operation).operand_count()),
        has_log_sum_gradient_(static_cast<int>(context.inputs.size()) > further_ + 3),
        tf32_(static_cast<const AttentionOperation&>(context.operation).tf32) {
    const View& view = plan_.view();
    const int64_t groups = view.groups.size(), tiles = groups * AttentionSights::row_tiles_of(view);
    MemoryParts parts;
    deltas_ = parts.take<C>(groups * view.rows);
    least_ = parts.take<int>(groups * view.rows);
    sight_ranges_ = parts.take<SightRanges>(tiles);
    if (view.memory_has_ids())
      memory_ranges_ = parts.take<MemoryRanges>(groups * AttentionSights::memory_tiles_of(view));
    if (view.has(View::kDBias)) d_bias_ = parts.take<C>(tiles * view.bucket_count);
    scratch_bytes_ = static_cast<size_t>(parts.bytes());
  }
  size_t scratch_bytes() const { return scratch_bytes_; }

  void operator()(const Launcher& launch, const KernelCall& call) const {
    const View view = plan_.view(call);
    AttentionGradients<T> gradients{call.input<T>(further_ + 2), call.output<T>(0), call.output<T>(1),
                                    call.output<T>(2), nullptr};
    if (view.has(View::kDBias)) gradients.d_bias = part_of_scratch<C>(call, d_bias_);

    AttentionSights sights(view);
    sights.least = part_of_scratch<int>(call, least_);
    sights.sights = part_of_scratch<SightRanges>(call, sight_ranges_);
    if (view.memory_has_ids()) sights.memory = part_of_scratch<MemoryRanges>(call, memory_ranges_);
    launch(sights.shape(), sights);
    const C* const d_log_sums = has_log_sum_gradient_ ? call.input<C>(further_ + 3) : nullptr;
    const AttentionDeltas<T> deltas(view, gradients.d_result, d_log_sums, part_of_scratch<C>(call, deltas_));
    launch(deltas.shape(), deltas);
    const AttentionRowTerms<C> terms{deltas.deltas, sights.least, sights.sights, sights.memory};
    const int64_t query_tiles = launch_walks(launch, view, terms, gradients);
    if (view.has(View::kDBias)) {
      const SumBucketsOfTiles<C> sum(view, gradients.d_bias, call.output<C>(3), query_tiles);
      launch(sum.shape(), sum);
    }
  }

 private:
  /// Returns the number of tiles of queries of a group.
  int64_t launch_walks(const Launcher& launch, const View& view, const AttentionRowTerms<C>& terms,
                       const AttentionGradients<T>& gradients) const {
    if constexpr (!std::is_same_v<T, double>) {
      if ((std::is_same_v<T, BFloat16> || tf32_) && can_use_mma<T>(view))
        return launch_mma_attention_gradient(launch, view, terms, gradients);
      // Sums of 128 columns are made at once: each part of 64 would compute the logits again.
      if (view.key > 64 || view.value > 64)
        return launch_backward<FmaTiles<T, 2>>(launch, view, terms, gradients);
    }
    return launch_backward<FmaTiles<T, 1>>(launch, view, terms, gradients);
  }

  AttentionPlan plan_;
  int further_;  ///< index of the result among the inputs
  bool has_log_sum_gradient_;
  bool tf32_;
  /// Offsets in scratch.
  int64_t deltas_ = 0, least_ = 0, sight_ranges_ = 0, memory_ranges_ = 0, d_bias_ = 0;
  size_t scratch_bytes_;
};

template <class T>
std::unique_ptr<Kernel> attention_gradient_kernel(const KernelContext& context, Device& device) {
  if (auto kernel = make_library_attention(context, device)) return kernel;
  const AttentionGradientLaunches<T> launches(context, device);
  return make_device_kernel(device, launches, launches.scratch_bytes(), contraction_flops(context));
}

const DeviceKernelRegistration gradient_f32("attention_gradient", {DType::kFloat32},
                                            attention_gradient_kernel<float>);
const DeviceKernelRegistration gradient_f64("attention_gradient", {DType::kFloat64},
                                            attention_gradient_kernel<double>);
const DeviceKernelRegistration gradient_bf16("attention_gradient", {DType::kBFloat16},
                                             attention_gradient_kernel<BFloat16>);

}  // namespace
}  // namespace mtf::cuda
