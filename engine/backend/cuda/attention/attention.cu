// Attention on the device without a tensor of length x memory_length: an online softmax over tiles of the
// memory (attention_forward.h), on tensor cores for bfloat16 and tf32 where sizes and alignment allow it
// (attention_mma.h), and a separate kernel for few queries (attention_few_rows.h). Shapes, strides and
// attributes decide which of them runs.
//
// cuDNN's kernels are an option (library_attention.h). They have no masks by priorities and relative positions
// as tensors, no given noise, no extra logit and no bias table with its gradient, and their choice depends on
// version and device. The kernels here share one loop over tiles that supports all of these.
#include "engine/backend/cuda/attention/attention_few_rows.h"
#include "engine/backend/cuda/attention/attention_fma_tiles.h"
#include "engine/backend/cuda/attention/attention_forward.h"
#include "engine/backend/cuda/attention/attention_mma.h"
#include "engine/backend/cuda/attention/attention_plan.h"
#include "engine/backend/cuda/attention/attention_rows.h"
#include "engine/backend/cuda/attention/library_attention.h"
#include "engine/backend/cuda/device/device_kernel.h"

namespace mtf::cuda {
namespace {

/// The number of 64-column parts of a result that a block sums in registers.
template <class T>
inline constexpr int kParts = sizeof(Computed<T>) == sizeof(float) ? 2 : 1;

template <class T>
class AttentionLaunches {
 public:
  using C = Computed<T>;

  AttentionLaunches(const KernelContext& context, Device& device)
      : plan_(context, device), tf32_(static_cast<const AttentionOperation&>(context.operation).tf32) {
    const AttentionView& view = plan_.view();
    const int64_t groups = view.groups.size(), rows = groups * view.rows;
    MemoryParts parts;
    if (view.memory_has_ids()) {
      least_ = parts.take<int>(rows);
      ranges_ = parts.take<MemoryRanges>(groups * AttentionSights::memory_tiles_of(view));
    }
    if (AttentionFewRows<T>::fits(view)) {
      const int64_t splits = AttentionFewRows<T>::splits_of(view);
      values_ = parts.take<C>(rows * splits * view.value);
      tops_ = parts.take<C>(rows * splits);
      sums_ = parts.take<C>(rows * splits);
    }
    scratch_bytes_ = static_cast<size_t>(parts.bytes());
  }
  size_t scratch_bytes() const { return scratch_bytes_; }

  void operator()(const Launcher& launch, const KernelCall& call) const {
    const AttentionView view = plan_.view(call);
    T* result = call.output<T>(0);
    C* log_sums = call.output<C>(1);
    const bool few_rows = AttentionFewRows<T>::fits(view);
    AttentionSights sights(view);
    if (view.memory_has_ids()) {
      sights.least = part_of_scratch<int>(call, least_);
      if (!few_rows) sights.memory = part_of_scratch<MemoryRanges>(call, ranges_);
      launch(sights.shape(), sights);
    }
    const int* least = sights.least;
    const MemoryRanges* ranges = sights.memory;
    if (few_rows) {
      const AttentionFewRows<T> few(view, least, result, log_sums,
                                    {part_of_scratch<C>(call, values_), part_of_scratch<C>(call, tops_),
                                     part_of_scratch<C>(call, sums_)});
      launch(few.shape(), few);
      if (few.splits.value() == 1) return;
      const MergeAttentionSplits<T> merge(few);
      launch(merge.shape(), merge);
      return;
    }
    if constexpr (!std::is_same_v<T, double>) {
      if ((std::is_same_v<T, BFloat16> || tf32_) && can_use_mma<T>(view))
        return launch_mma_attention(launch, view, ranges, least, result, log_sums);
    }
    launch_forward<FmaTiles<T, kParts<T>>>(launch, view, ranges, least, result, log_sums);
  }

 private:
  AttentionPlan plan_;
  bool tf32_;
  int64_t least_ = 0, ranges_ = 0, values_ = 0, tops_ = 0, sums_ = 0;  ///< offsets in scratch
  size_t scratch_bytes_;
};

template <class T>
std::unique_ptr<Kernel> attention_kernel(const KernelContext& context, Device& device) {
  if (auto kernel = make_library_attention(context, device)) return kernel;
  const AttentionLaunches<T> launches(context, device);
  return make_device_kernel(device, launches, launches.scratch_bytes(), contraction_flops(context));
}

const DeviceKernelRegistration attention_f32("attention", {DType::kFloat32}, attention_kernel<float>);
const DeviceKernelRegistration attention_f64("attention", {DType::kFloat64}, attention_kernel<double>);
const DeviceKernelRegistration attention_bf16("attention", {DType::kBFloat16}, attention_kernel<BFloat16>);

}  // namespace
}  // namespace mtf::cuda
