#include "engine/backend/cuda/attention/attention_forward.h"
#include "engine/backend/cuda/attention/attention_mma.h"
#include "engine/backend/cuda/attention/attention_mma_tiles.h"

namespace mtf::cuda {

void launch_mma_attention(const Launcher& launch, const AttentionView& view, const MemoryRanges* ranges,
                          const int* least, BFloat16* result, float* log_sums) {
  const bool has_many_rows = view.rows > 64;
  if (view.key <= 64 && view.value <= 64) {
    if (has_many_rows) {
      launch_forward<MmaTiles<BFloat16Mma, 64, 2, true>>(launch, view, ranges, least, result, log_sums);
    } else {
      launch_forward<MmaTiles<BFloat16Mma, 64, 1, true>>(launch, view, ranges, least, result, log_sums);
    }
  } else if (has_many_rows) {  // the registers hold no queries beside a result of 128 columns
    launch_forward<MmaTiles<BFloat16Mma, 128, 2, false>>(launch, view, ranges, least, result, log_sums);
  } else {
    launch_forward<MmaTiles<BFloat16Mma, 128, 1, true>>(launch, view, ranges, least, result, log_sums);
  }
}

}  // namespace mtf::cuda
