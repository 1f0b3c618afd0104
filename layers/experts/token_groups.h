// Groups of tokens that compete for the places of experts.
//
// With grouping `row` a group is a run of a row: neither the mesh nor the number of microbatches changes it. With `flat`
// it is a run of all rows of a microbatch, one after the other, as in Mesh TensorFlow on one processor.
#pragma once

#include <cstdint>

#include "engine/graph/tensor.h"
#include "layers/experts/options.h"

namespace mtf {

/// The number of groups of n tokens in all, at most `group_size` in each but where no divisor allows it (flat).
int64_t flat_groups(int64_t n, int64_t group_size);
/// The number of groups of a row of `length` tokens: the least divisor with at most `group_size` tokens in each.
int64_t row_groups(int64_t length, int64_t group_size);

class TokenGroups {
 public:
  /// tokens: [batch.., length]; the last dimension is the row.
  TokenGroups(const Shape& tokens, Grouping grouping, int64_t group_size);

  const Shape& tokens() const { return tokens_; }
  /// The dimensions of the groups, and that of a group's tokens.
  const Shape& rows() const { return rows_; }
  const Dimension& group() const { return group_; }

  /// x: [tokens.., others..] -> [rows.., group, others..], and back.
  Tensor join(const Tensor& x) const;
  Tensor part(const Tensor& x) const;

 private:
  Shape tokens_, rows_;
  Dimension group_;
};

}  // namespace mtf
