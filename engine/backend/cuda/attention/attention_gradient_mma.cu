#include "engine/backend/cuda/attention/attention_backward.h"
#include "engine/backend/cuda/attention/attention_mma.h"
#include "engine/backend/cuda/attention/attention_mma_tiles.h"

namespace mtf::cuda {

int64_t launch_mma_attention_gradient(const Launcher& launch, const AttentionView& view,
                                      const AttentionRowTerms<float>& rows,
                                      const AttentionGradients<BFloat16>& gradients) {
  // Beside sums of 128 columns the registers hold operands of 16 rows of a warp.
  if (view.key <= 64 && view.value <= 64)
    return launch_backward<MmaTiles<BFloat16Mma, 64, 2, true, 64, 16>>(launch, view, rows, gradients);
  return launch_backward<MmaTiles<BFloat16Mma, 128, 1, true, 64, 16>>(launch, view, rows, gradients);
}

}  // namespace mtf::cuda
