#include "layers/experts/token_groups.h"

#include <algorithm>

#include "engine/ops/reshape.h"

namespace mtf {

int64_t flat_groups(int64_t n, int64_t group_size) {
  int64_t groups = std::max<int64_t>(1, n / group_size);
  while (n % groups != 0) ++groups;
  return groups;
}

int64_t row_groups(int64_t length, int64_t group_size) {
  int64_t groups = (length + group_size - 1) / group_size;
  while (length % groups != 0) ++groups;
  return groups;
}

TokenGroups::TokenGroups(const Shape& tokens, Grouping grouping, int64_t group_size) : tokens_(tokens) {
  const Dimension length = tokens[tokens.rank() - 1];
  if (grouping == Grouping::kFlat) {
    const int64_t groups = flat_groups(tokens.size(), group_size);
    rows_ = Shape{{tokens[0].name, groups}};
    group_ = {"group", tokens.size() / groups};
    return;
  }
  const int64_t groups = row_groups(length.size, group_size);
  rows_ = tokens - length;
  if (groups > 1) rows_ = rows_ + Dimension{"groups", groups};
  group_ = groups == 1 ? length : Dimension{"group", length.size / groups};
}

namespace {

/// x with its first dimensions, `from`, replaced.
Tensor replace_first(const Tensor& x, const Shape& from, const Shape& to) {
  return from == to ? x : reshape(x, to + (x.shape() - from));
}

}  // namespace

Tensor TokenGroups::join(const Tensor& x) const { return replace_first(x, tokens_, rows_ + group_); }

Tensor TokenGroups::part(const Tensor& x) const { return replace_first(x, rows_ + group_, tokens_); }

}  // namespace mtf
