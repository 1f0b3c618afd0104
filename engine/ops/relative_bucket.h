// Buckets of relative positions, which index the relative position bias of attention.
//
//   relative_bucket(memory_position - query_position, {.bidirectional = false})    // int32 -> int32
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "engine/graph/graph.h"

namespace mtf {

/// The buckets of relative positions, memory - query (Raffel et al., T5, 2020, §2.1). Of b buckets the first
/// e = b / 2 are for one distance each; the others grow logarithmically up to max_distance: a distance n >= e
/// has bucket e + floor((b - e) ln(n / e) / ln(max_distance / e)), at most the last one. If bidirectional,
/// each direction has half of the buckets; otherwise all entries behind the query are in bucket 0.
struct RelativeBuckets {
  bool bidirectional = true;
  int64_t buckets = 32;
  int64_t max_distance = 128;

  int64_t operator()(int64_t relative) const;
};
/// Returns the bucket of each element. relative: int32, any shape.
Tensor relative_bucket(const Tensor& relative, const RelativeBuckets& buckets);

class RelativeBucket final : public OperationBase<RelativeBucket> {
 public:
  RelativeBucket(const Tensor& relative, const RelativeBuckets& buckets)
      : OperationBase({relative}, {{relative.shape(), relative.dtype()}}), buckets(buckets) {}
  std::string_view name() const override { return "relative_bucket"; }
  std::string attributes() const override;
  std::optional<int> in_place(int) const override { return 0; }

  RelativeBuckets buckets;
};

}  // namespace mtf
