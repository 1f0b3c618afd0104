#include "engine/backend/cuda/attention/attention_forward.h"
#include "engine/backend/cuda/attention/attention_mma.h"
#include "engine/backend/cuda/attention/attention_mma_tiles.h"

namespace mtf::cuda {
namespace {

template <class Tiles>
void launch_forward(const Launcher& launch, AttentionForward<Tiles> kernel, const MemoryRanges* ranges,
                    const int* least) {
  kernel.ranges = ranges;
  kernel.least = least;
  launch(kernel.shape(), kernel);
}

template <int kWidth>
void launch_forward(const Launcher& launch, const AttentionView& view, const MemoryRanges* ranges,
                    const int* least, BFloat16* result, float* log_sums) {
  if (view.rows > 64) {
    launch_forward(launch, AttentionForward<MmaTiles<kWidth, 2>>(view, result, log_sums), ranges, least);
  } else {
    launch_forward(launch, AttentionForward<MmaTiles<kWidth, 1>>(view, result, log_sums), ranges, least);
  }
}

}  // namespace

void launch_mma_attention(const Launcher& launch, const AttentionView& view, const MemoryRanges* ranges,
                          const int* least, BFloat16* result, float* log_sums) {
  if (view.key <= 64 && view.value <= 64) {
    launch_forward<64>(launch, view, ranges, least, result, log_sums);
  } else {
    launch_forward<128>(launch, view, ranges, least, result, log_sums);
  }
}

}  // namespace mtf::cuda
