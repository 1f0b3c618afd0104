// Attention of a sequence to itself when its length is split: provides the part of the memory that each
// position needs for its queries. If the queries see only a narrow band around themselves, the sequence is
// divided into one block for each position, and the blocks exchange the parts of their neighbours that the
// band reaches; otherwise the memory is gathered.
//
//   const SequenceBlocks blocks(inputs, options, rules);   // options.memory_length == options.query_length
//   y = blocks.joined(attention(blocks.inputs(), blocks.options()));
//
// Mesh TensorFlow's local_attention_1d (transformer/attention.py) divides sequences in a similar way, into
// blocks of at most max(radius, 128) entries.
#pragma once

#include <cstdint>
#include <string>

#include "engine/ops/attention.h"

namespace mtf {

class SequenceBlocks {
 public:
  SequenceBlocks(const AttentionInputs& inputs, const AttentionOptions& options, const LayoutMap& rules);

  /// The operands in blocks: queries [.., blocks, queries of a block, ..] and memory [.., blocks, entries,
  /// ..], where `blocks` has the name of the length. Entries beyond the ends of the sequence are in a segment
  /// of their own. Without blocks only the name of the memory changes.
  const AttentionInputs& inputs() const { return inputs_; }
  const AttentionOptions& options() const { return options_; }

  /// cut() divides x [.., length, ..] in the same way as the queries; joined() is the inverse.
  Tensor cut(const Tensor& x) const;
  Tensor joined(const Tensor& x) const;

  /// Returns the gradients of the original k and v, given those of inputs().k and .v. If k and v are one
  /// tensor, the first gradient is that of both and the second is zero.
  struct MemoryGradients {
    Tensor k, v;
  };
  MemoryGradients memory_gradients(const Tensor& dk, const Tensor& dv) const;

 private:
  /// Sets how far the blocks reach on both sides. Returns false if the sequence cannot or should not be
  /// divided.
  bool narrow_band(const AttentionInputs& in, const AttentionOptions& options);
  /// Divides x [.., length, ..] in the same way as the memory: each block with the entries that it reaches.
  Tensor extended(const Tensor& x) const;
  void set_segments(const AttentionInputs& in);
  void set_priorities(const AttentionInputs& in);

  Dimension length_;
  Dimension blocks_, queries_;  ///< length_ = blocks_ * queries_
  std::string entries_;         ///< name of the memory's dimension
  /// The number of entries of the neighbours on the left and, unless `left_only_`, on the right.
  int64_t reach_ = 0;
  bool left_only_ = false;
  bool in_blocks_;
  Tensor k_, v_;  ///< new handles of the given k and v
  AttentionInputs inputs_;
  AttentionOptions options_;
};

}  // namespace mtf
