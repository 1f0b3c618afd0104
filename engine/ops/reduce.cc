#include "engine/ops/reduce.h"

#include <fmt/format.h>

#include "engine/base/check.h"
#include "engine/graph/graph.h"
#include "engine/ops/binary.h"
#include "engine/ops/broadcast.h"
#include "engine/ops/cast.h"
#include "engine/ops/unary.h"

namespace mtf {
namespace {

Tensor reduce(ReduceFunction function, const Tensor& x, const Shape& output) {
  if (x.shape() == output) return x;
  if (same_dimensions(x.shape(), output)) return transpose(x, output);
  return x.graph().add<Reduce>(function, x, output, x.dtype()).output();
}

Reduction reduction_of(ReduceFunction function) {
  switch (function) {
    case ReduceFunction::kSum:
      return Reduction::kSum;
    case ReduceFunction::kMax:
    case ReduceFunction::kAny:
      return Reduction::kMax;
    case ReduceFunction::kMin:
    case ReduceFunction::kAll:
      return Reduction::kMin;
  }
  MTF_CHECK(false, "reduction {}", static_cast<int>(function));
}

}  // namespace

Reduce::Reduce(ReduceFunction function, const Tensor& x, const Shape& output, DType dtype)
    : OperationBase({x}, {{output, dtype}}), function(function) {
  if (!x.shape().contains_all(output)) {
    shape_error(
        name(),
        fmt::format("the output {} has dimensions that {} lacks", output.to_string(), x.shape().to_string()),
        "a reduction keeps some of the dimensions");
  }
  const bool logical = function == ReduceFunction::kAll || function == ReduceFunction::kAny;
  if (logical != (x.dtype() == DType::kBool)) {
    shape_error(name(), fmt::format("not defined for {}", name_of(x.dtype())),
                logical ? "compare first" : "cast the operand, or take reduce_all or reduce_any");
  }
}

std::string_view Reduce::name() const {
  switch (function) {
    case ReduceFunction::kSum:
      return "reduce_sum";
    case ReduceFunction::kMax:
      return "reduce_max";
    case ReduceFunction::kMin:
      return "reduce_min";
    case ReduceFunction::kAll:
      return "reduce_all";
    case ReduceFunction::kAny:
      return "reduce_any";
  }
  MTF_CHECK(false, "reduction {}", static_cast<int>(function));
}

Tensor Reduce::wide_sum() const {
  if (function != ReduceFunction::kSum) return {};
  return graph().add<Reduce>(ReduceFunction::kSum, input(0), output().shape(), DType::kFloat32).output();
}

Tensors Reduce::gradient(const Tensors& dy) const {
  const Tensor& x = input(0);
  switch (function) {
    case ReduceFunction::kSum:
      return {broadcast(cast(dy[0], x.dtype()), x.shape())};
    case ReduceFunction::kMax:
    case ReduceFunction::kMin: {
      const Tensor zero = graph().constant(0, x.dtype());
      return {where(equal(x, output(), x.shape()), dy[0], zero, x.shape())};
    }
    default:
      return {Tensor()};
  }
}

ShardingRule Reduce::sharding_rule(const ShardingRequest& request) const {
  const Shape reduced = input(0).shape() - outputs()[0].shape;
  ShardingRule rule = shard_reduction(*this, request, reduced, reduction_of(function));
  if (function == ReduceFunction::kSum) {
    const AxisMask partial = request.inputs[0].partial & ~rule.inputs[0].split_axes();
    rule.inputs[0].partial = partial;
    rule.outputs[0].partial |= partial;
  }
  return rule;
}

Tensors ReduceFirst::gradient(const Tensors& dy) const {
  return {graph().add<ReduceFirstGradient>(dy[0], dimension, input(0).shape()).output()};
}

ShardingRule ReduceFirst::sharding_rule(const ShardingRequest& request) const {
  return shard_reduction(*this, request, {dimension}, Reduction::kSum);
}

Tensors ReduceFirstGradient::gradient(const Tensors& dy) const {
  return {reduce_first(dy[0], dimension.name)};
}

SumOfSquares::SumOfSquares(const Tensor& x) : OperationBase({x}, {{{}, DType::kFloat64}}) {
  if (!is_floating(x.dtype())) {
    shape_error(name(), fmt::format("not defined for {}", name_of(x.dtype())), "cast the operand first");
  }
}

Tensors SumOfSquares::gradient(const Tensors& dy) const {
  return {multiply(input(0), cast(scalar_multiply(dy[0], 2), input(0).dtype()))};
}

ShardingRule SumOfSquares::sharding_rule(const ShardingRequest& request) const {
  return shard_reduction(*this, request, input(0).shape(), Reduction::kSum);
}

Tensor reduce_sum(const Tensor& x, const Shape& output) { return reduce(ReduceFunction::kSum, x, output); }
Tensor reduce_max(const Tensor& x, const Shape& output) { return reduce(ReduceFunction::kMax, x, output); }
Tensor reduce_min(const Tensor& x, const Shape& output) { return reduce(ReduceFunction::kMin, x, output); }
Tensor reduce_all(const Tensor& x, const Shape& output) { return reduce(ReduceFunction::kAll, x, output); }
Tensor reduce_any(const Tensor& x, const Shape& output) { return reduce(ReduceFunction::kAny, x, output); }

Tensor reduce_mean(const Tensor& x, const Shape& output) {
  if (!is_floating(x.dtype())) {
    shape_error("reduce_mean", fmt::format("not defined for {}", name_of(x.dtype())),
                "cast the operand first");
  }
  const Tensor sum = reduce_sum(x, output);
  const double share = static_cast<double>(output.size()) / static_cast<double>(x.shape().size());
  return share == 1 ? sum : scalar_multiply(sum, share);
}

Tensor reduce_first(const Tensor& x, std::string_view dimension) {
  return x.graph().add<ReduceFirst>(x, x.shape().dimension(dimension)).output();
}

Tensor sum_of_squares(const Tensor& x) { return x.graph().add<SumOfSquares>(x).output(); }

}  // namespace mtf
