// Attention on tensor cores: launches that attention.cu and attention_gradient.cu use where the sizes allow it,
// in bfloat16, and in float32 where factors may be rounded to tf32.
#pragma once

#include <cstdint>

#include "engine/backend/cuda/attention/attention_gradient_operands.h"
#include "engine/backend/cuda/device/device_kernel.h"

namespace mtf::cuda {

inline constexpr int kMostMmaColumns = 128;

/// True if rows of T consist of whole 16-byte chunks, noise is the same for all rows, and a bias fits into
/// shared memory.
template <class T>
bool can_use_mma(const AttentionView& view) {
  constexpr int kChunk = 16 / static_cast<int>(sizeof(T));
  return view.aligned && view.key % kChunk == 0 && view.value % kChunk == 0 && view.key <= kMostMmaColumns &&
         view.value <= kMostMmaColumns && !view.noise_by_row() &&
         view.farthest <= AttentionView::kFarthestShared;
}

/// `ranges` and `least` are as in AttentionForward. With float32, factors are rounded to tf32.
void launch_mma_attention(const Launcher& launch, const AttentionView& view, const MemoryRanges* ranges,
                          const int* least, BFloat16* result, float* log_sums);
void launch_mma_attention(const Launcher& launch, const AttentionView& view, const MemoryRanges* ranges,
                          const int* least, float* result, float* log_sums);

/// Return what launch_backward() does.
int64_t launch_mma_attention_gradient(const Launcher& launch, const AttentionView& view,
                                      const AttentionRowTerms<float>& rows,
                                      const AttentionGradients<BFloat16>& gradients);
int64_t launch_mma_attention_gradient(const Launcher& launch, const AttentionView& view,
                                      const AttentionRowTerms<float>& rows,
                                      const AttentionGradients<float>& gradients);

}  // namespace mtf::cuda
