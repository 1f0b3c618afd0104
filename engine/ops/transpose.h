// Changes the declared order of dimensions.
#pragma once

#include <string_view>

#include "engine/graph/operation.h"

namespace mtf {

class Transpose final : public OperationBase<Transpose> {
 public:
  Transpose(const Tensor& x, const Shape& shape);
  std::string_view name() const override { return "transpose"; }
  Tensors gradient(const Tensors& dy) const override;
  ShardingRule sharding_rule(const ShardingRequest& request) const override {
    return shard_linear(*this, request, {0});
  }
};

/// Returns x with its dimensions in the order of `shape`; x itself if it has this order. Throws Error if the
/// dimensions differ.
Tensor transpose(const Tensor& x, const Shape& shape);

}  // namespace mtf
