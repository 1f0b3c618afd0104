// Attention of a sequence to itself where its length is split: what each position needs to answer its own
// queries. If they see only a band around themselves, and the band is narrow beside the length, the sequence
// is cut into one block for each position and blocks exchange what the band reaches of their neighbours;
// otherwise the memory is gathered.
//
//   const SequenceBlocks blocks(inputs, options, rules);   // options.memory_length == options.query_length
//   y = blocks.joined(attention(blocks.inputs(), blocks.options()));
//
// Mesh TensorFlow's local_attention_1d (transformer/attention.py) cuts likewise, into blocks of max(radius,
// 128) entries or less.
#pragma once

#include <string>

#include "engine/ops/attention.h"

namespace mtf {

class SequenceBlocks {
 public:
  SequenceBlocks(const AttentionInputs& inputs, const AttentionOptions& options, const LayoutMap& rules);

  /// Of each block: queries [.., blocks, queries of the block, ..], memory [.., blocks, entries, ..], where
  /// `blocks` has the name of the length. Entries beyond the ends of the sequence are in a segment of their
  /// own. Without blocks the same as before, but for the name of the memory.
  const AttentionInputs& inputs() const { return inputs_; }
  const AttentionOptions& options() const { return options_; }

  /// x [.., length, ..] as the queries are, and back.
  Tensor cut(const Tensor& x) const;
  Tensor joined(const Tensor& x) const;

  /// From the gradients of inputs().k and .v those of the k and v that were given. Where these are one tensor
  /// the second is zero, and the first that of both.
  struct MemoryGradients {
    Tensor k, v;
  };
  MemoryGradients memory_gradients(const Tensor& dk, const Tensor& dv) const;

 private:
  /// Sets what the blocks reach on both sides; false: they should not be cut, or cannot be.
  bool narrow_band(const AttentionInputs& in, const AttentionOptions& options);
  /// x [.., length, ..] as the memory is: each block with what it reaches.
  Tensor extended(const Tensor& x) const;
  void set_segments(const AttentionInputs& in);
  void set_priorities(const AttentionInputs& in);

  Dimension length_;
  Dimension blocks_, queries_;  ///< length_ = blocks_ * queries_
  std::string entries_;         ///< name of the memory
  int64_t reach_ = 0;  ///< entries of the neighbours on the left, and unless `left_only_` on the right
  bool left_only_ = false;
  bool in_blocks_;
  Tensor k_, v_;  ///< as given
  AttentionInputs inputs_;
  AttentionOptions options_;
};

}  // namespace mtf
