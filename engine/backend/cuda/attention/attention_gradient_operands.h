// What the loops of the gradient of attention (attention_backward.h) read and write besides the AttentionView.
#pragma once

#include "engine/backend/cuda/attention/attention_masks.h"
#include "engine/backend/element.h"

namespace mtf::cuda {

/// Results of the first launch of the gradient (attention_rows.h), by group, then row or tile.
template <class C>
struct AttentionRowTerms {
  const C* deltas;
  const int* least;                   ///< Sight::least
  const SightRanges* sight_ranges;    ///< by tile of AttentionView::kTile rows
  const MemoryRanges* memory_ranges;  ///< by tile of as many entries; null if the memory has no ids
};

/// The gradients of the operands and of the result.
template <class T>
struct AttentionGradients {
  const T* d_result;
  T *d_q, *d_k, *d_v;
  Computed<T>* d_bias;  ///< as in AttentionBackward
};

}  // namespace mtf::cuda
