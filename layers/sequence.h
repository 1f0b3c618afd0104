// What the layers of a Transformer know of the rows of tokens that they work on, beside the rows themselves.
//
//   Sequence sequence{.length = length, .segment = segment, .causal = true};
//   const auto scope = context.enter(sequence);     // layers find it by context.sequence()
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/graph/tensor.h"
#include "layers/decoding.h"
#include "layers/layer_tensor.h"

namespace mtf {

struct Alignment;  // layers/alignment.h

struct Sequence {
  Dimension length;  ///< the positions of x
  /// int32 [batch, length]: positions of equal numbers see each other, 0 is padding. Null: one segment
  /// without padding.
  Tensor segment = {};
  bool one_text = false;  ///< a row is one segment, and then padding
  bool causal = false;    ///< a position sees itself and those before it, but where priorities say more
  /// int32 [batch, length]: position a sees b iff read[a] >= write[b]. Null: as `causal` says.
  Tensor read_priority = {}, write_priority = {};
  /// Priorities let some positions see later ones; so too in steps of decoding, which have none.
  bool has_priorities = false;
  /// Some positions see later ones, and tell them apart from earlier ones.
  bool looks_ahead() const { return !causal || has_priorities; }
  /// [batch, memory_length, d_model], int32 [batch, memory_length]: what the encoder made. Null: there is no
  /// encoder.
  Tensor memory = {}, memory_segment = {};
  /// A text that is written token by token. In its steps x is [batch, beam, ..], without `length`, and
  /// `memory` is null: layers have kept what they need of it.
  const Decoding* decoding = nullptr;
  bool is_step() const { return decoding != nullptr && decoding->is_step(); }

  /// float32 [batch, length], 1 where there is no padding; null without segments.
  Tensor mask = {};
  /// The layer of a stack that is in hand, for `call_layer`, and its input, for `residual`. Null where no
  /// sublayers are at work, and within the layer itself.
  const LayerFunction* layer = nullptr;
  LayerTensor layer_input = {};
  /// The ids that x was made of, int32 [batch, length], and those that `memory` was made of, int32 [batch,
  /// memory_length]. Null where nothing needs them: models of one text, steps of decoding.
  Tensor ids = {}, memory_ids = {};
  /// What a stack has made so far: x behind its initial sublayers and behind each layer; when it is done, its result
  /// stands last in place of that of the last layer.
  std::vector<Tensor> layer_outputs = {};
  /// The same of the encoder, with memory_length.
  std::vector<Tensor> memory_layers = {};
  /// The layer of the stack that is in hand, from 0.
  int64_t layer_number = 0;
  /// Tensors that layers of one kind share, by a name that says which.
  std::map<std::string, Tensor> shared = {};
  /// The block of the stack that is in hand, from 0.
  int64_t block_number = 0;
  /// The attention to the encoder that tells the alignment; null: nothing asks for it.
  Alignment* alignment = nullptr;
};

}  // namespace mtf
