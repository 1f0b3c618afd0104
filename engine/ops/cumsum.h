// Cumulative sums along one dimension.
//
//   cumsum(x, "length")                       // [0, 1, 2, 3] -> [0, 1, 3, 6]
//   cumsum(x, "length", {.exclusive = true})  // [0, 1, 2, 3] -> [0, 0, 1, 3]
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "engine/graph/graph.h"
#include "engine/ops/dimension_name.h"

namespace mtf {

struct CumsumOptions {
  bool exclusive = false;  ///< entry i is the sum of the entries before i, without entry i
  bool reverse = false;    ///< the sums run from the end
};

/// Returns the sums in the shape of x. If the dimension is split, it is gathered first.
Tensor cumsum(const Tensor& x, DimensionName dimension, CumsumOptions options = {});

class Cumsum final : public OperationBase<Cumsum> {
 public:
  Cumsum(const Tensor& x, std::string_view dimension, CumsumOptions options);
  std::string_view name() const override { return "cumsum"; }
  std::string attributes() const override;
  /// Returns the cumulative sum of dy from the other end.
  Tensors gradient(const Tensors& dy) const override;
  ShardingRule sharding_rule(const ShardingRequest& request) const override;
  std::optional<int> in_place(int) const override { return 0; }

  std::string dimension;
  CumsumOptions options;
};

}  // namespace mtf
