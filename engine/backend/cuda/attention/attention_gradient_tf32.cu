#include "engine/backend/cuda/attention/attention_backward.h"
#include "engine/backend/cuda/attention/attention_mma.h"
#include "engine/backend/cuda/attention/attention_mma_tiles.h"

namespace mtf::cuda {

int64_t launch_mma_attention_gradient(const Launcher& launch, const AttentionView& view,
                                      const AttentionRowTerms<float>& rows,
                                      const AttentionGradients<float>& gradients) {
  if (view.key <= 64 && view.value <= 64)
    return launch_backward<MmaTiles<Tf32Mma, 64, 1, true, 64, 16>>(launch, view, rows, gradients);
  // Row operands of 128 columns stay in shared memory, and those of columns have tiles of 32 rows.
  return launch_backward<MmaTiles<Tf32Mma, 128, 1, false, 32, 16>>(launch, view, rows, gradients);
}

}  // namespace mtf::cuda
