#include "engine/backend/cuda/attention/attention_forward.h"
#include "engine/backend/cuda/attention/attention_mma.h"
#include "engine/backend/cuda/attention/attention_mma_tiles.h"

namespace mtf::cuda {

void launch_mma_attention(const Launcher& launch, const AttentionView& view, const MemoryRanges* ranges,
                          const int* least, float* result, float* log_sums) {
  if (view.key > 64 || view.value > 64) {  // tiles of 32 entries, so that two blocks share a multiprocessor
    launch_forward<MmaTiles<Tf32Mma, 128, 1, true, 32>>(launch, view, ranges, least, result, log_sums);
  } else if (view.rows > 64) {
    launch_forward<MmaTiles<Tf32Mma, 64, 2, false>>(launch, view, ranges, least, result, log_sums);
  } else {
    launch_forward<MmaTiles<Tf32Mma, 64, 1, true>>(launch, view, ranges, least, result, log_sums);
  }
}

}  // namespace mtf::cuda
