// Attention in bfloat16 on tensor cores: launches that attention.cu and attention_gradient.cu use where the
// sizes allow it.
#pragma once

#include "engine/backend/cuda/attention/attention_backward.h"
#include "engine/backend/cuda/attention/attention_masks.h"
#include "engine/backend/cuda/device/device_kernel.h"

namespace mtf::cuda {

inline constexpr int kMostMmaColumns = 128;

/// True if rows consist of whole 16-byte chunks, noise is the same for all rows, and a bias fits into shared
/// memory.
inline bool can_use_mma(const AttentionView& view) {
  return view.aligned && view.key % 8 == 0 && view.value % 8 == 0 && view.key <= kMostMmaColumns &&
         view.value <= kMostMmaColumns && !view.noise_by_row() &&
         view.farthest <= AttentionView::kFarthestShared;
}

/// `ranges` and `least` are as in AttentionForward.
void launch_mma_attention(const Launcher& launch, const AttentionView& view, const MemoryRanges* ranges,
                          const int* least, BFloat16* result, float* log_sums);

void launch_mma_attention_gradient(const Launcher& launch, const AttentionView& view,
                                   const AttentionRowTerms<float>& rows,
                                   const AttentionGradients<BFloat16>& gradients);

}  // namespace mtf::cuda
