// Which tokens of the encoder a token of the decoder stands for, as the weights of one attention tell it, and the loss that
// teaches them known alignments. Garg et al., Jointly Learning to Align and Translate with Transformer Models, 2019, §4.
//
//   Alignment alignment{.block = 4, .heads = 1};
//   sequence.alignment = &alignment;   // before the layers of the decoder
//   alignment.weights                  // afterwards
#pragma once

#include <cstdint>
#include <optional>

#include "engine/ops/attention.h"
#include "layers/context.h"

namespace mtf {

struct Alignment {
  int64_t block = 0;                  ///< the block of the decoder whose first EncDecAttention tells it
  std::optional<int64_t> heads = {};  ///< so many of its first heads count; null: all
  /// float32 [batch, length, memory_length]: the weights that are right, in rows that sum to 1, or to 0 where none are
  /// known. Null: there is no loss.
  Tensor guide = {};
  double loss_scale = 1;  ///< the factor of the sum of the rows' losses
  /// float32 [batch, length, memory_length]: the mean of the heads' weights, without dropout. The layer sets it.
  Tensor weights = {};
};

/// Sets alignment.weights from the operands of an attention of the decoder to the encoder, and adds the loss `alignment`:
/// loss_scale times the sum of -guide log(weights). Only positions of the encoder have weights: neither an extra logit nor
/// a learned prefix takes part. query_heads: the dimensions of the queries' heads.
void add_alignment(Context& context, AttentionInputs inputs, AttentionOptions options,
                   const Shape& query_heads, Alignment& alignment);

}  // namespace mtf
