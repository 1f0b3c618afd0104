#include "engine/backend/cuda/attention/attention_mma.h"
#include "engine/backend/cuda/attention/attention_mma_tiles.h"

namespace mtf::cuda {

void launch_mma_attention_gradient(const Launcher& launch, const AttentionView& view,
                                   const AttentionRowTerms<float>& rows,
                                   const AttentionGradients<BFloat16>& gradients) {
  if (view.key <= 64 && view.value <= 64) {
    launch_backward<MmaTiles<64, 1>>(launch, view, rows, gradients);
  } else {
    launch_backward<MmaTiles<128, 1>>(launch, view, rows, gradients);
  }
}

}  // namespace mtf::cuda
