#include "engine/ops/einsum.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "engine/base/check.h"
#include "engine/graph/matmul_precision_scope.h"
#include "engine/ops/binary.h"
#include "engine/ops/broadcast.h"
#include "engine/ops/cast.h"
#include "engine/ops/reduce.h"
#include "engine/ops/weight_copies.h"

namespace mtf {
namespace {

/// Adds the dimensions of `shape` to `known`; throws Error if a dimension has two sizes.
void check_sizes(Shape& known, const Shape& shape) {
  for (const Dimension& d : shape) {
    const std::optional<int> axis = known.find(d.name);
    if (axis && known[*axis].size != d.size) {
      shape_error("einsum",
                  fmt::format("dimension `{}` has sizes {} and {}", d.name, known[*axis].size, d.size));
    }
    if (!axis) known = known + d;
  }
}

/// Checks the inputs; returns the union of their dimensions in order of first appearance.
Shape check_inputs(const Tensors& inputs) {
  if (inputs.empty()) shape_error("einsum", "no inputs");
  Shape all;
  for (const Tensor& x : inputs) {
    if (x.dtype() != inputs[0].dtype()) {
      shape_error("einsum",
                  fmt::format("inputs have dtypes {} and {}", name_of(inputs[0].dtype()), name_of(x.dtype())),
                  "cast one of them");
    }
    check_sizes(all, x.shape());
  }
  return all;
}

/// Returns the dimensions of `shape` that `keep` accepts.
template <class Keep>
Shape filtered(const Shape& shape, Keep keep) {
  std::vector<Dimension> result;
  for (const Dimension& d : shape) {
    if (keep(d)) result.push_back(d);
  }
  return Shape(std::move(result));
}

int count_inputs(const Tensors& inputs, const Dimension& d) {
  int count = 0;
  for (const Tensor& x : inputs) count += x.shape().contains(d.name);
  return count;
}

/// Returns the product of a and b summed down to `output`, whose dimensions are among theirs.
Tensor contract(const Tensor& a, const Tensor& b, const Shape& output) {
  const Shape all = a.shape() + b.shape();
  if (all.rank() == output.rank()) return multiply(a, b, output);
  if (!is_floating(a.dtype())) return reduce_sum(multiply(a, b, all), output);
  if (const auto& copies = a.graph().weight_copies()) {
    if (const Tensor product = copies->product(a, b, output)) return product;
  }
  return a.graph().add<Einsum>(a, b, output).output();
}

/// Replaces the pair of terms that is cheapest to contract (the one with the smallest union of dimensions;
/// the first of several) by its product. A dimension is kept if the output or another term has it.
void contract_cheapest_pair(Tensors& terms, const Shape& output) {
  size_t first = 0, second = 1;
  int64_t cheapest = std::numeric_limits<int64_t>::max();
  for (size_t i = 0; i < terms.size(); ++i) {
    for (size_t j = i + 1; j < terms.size(); ++j) {
      const int64_t cost = (terms[i].shape() + terms[j].shape()).size();
      if (cost < cheapest) cheapest = cost, first = i, second = j;
    }
  }
  const Tensor a = terms[first], b = terms[second];
  terms.erase(terms.begin() + static_cast<std::ptrdiff_t>(second));
  terms.erase(terms.begin() + static_cast<std::ptrdiff_t>(first));
  const Shape kept = terms.empty() ? output : filtered(a.shape() + b.shape(), [&](const Dimension& d) {
    return output.contains(d.name) || count_inputs(terms, d) > 0;
  });
  terms.push_back(contract(a, b, kept));
}

}  // namespace

Tensor einsum(const Tensors& inputs, const Shape& output) {
  Shape all = check_inputs(inputs);
  const Shape union_of_inputs = all;
  check_sizes(all, output);
  const Shape from_inputs =
      filtered(output, [&](const Dimension& d) { return union_of_inputs.contains(d.name); });
  Tensors terms;
  for (const Tensor& x : inputs) {
    const Shape kept = filtered(x.shape(), [&](const Dimension& d) {
      return output.contains(d.name) || count_inputs(inputs, d) > 1;
    });
    terms.push_back(inputs.size() == 1 ? x : reduce_sum(x, kept));
  }
  while (terms.size() > 1) contract_cheapest_pair(terms, from_inputs);
  const bool same_dimensions = terms[0].shape().rank() == from_inputs.rank();
  const Tensor result =
      same_dimensions ? transpose(terms[0], from_inputs) : reduce_sum(terms[0], from_inputs);
  return from_inputs == output ? result : broadcast(result, output);
}

Tensor einsum(const Tensors& inputs) {
  const Shape all = check_inputs(inputs);
  return einsum(inputs, filtered(all, [&](const Dimension& d) { return count_inputs(inputs, d) == 1; }));
}

Tensor einsum_over(const Tensors& inputs, const Shape& reduced) {
  const Shape all = check_inputs(inputs);
  for (const Dimension& d : reduced) {
    if (!all.contains(d))
      shape_error("einsum", fmt::format("no input has the summed dimension {}={}", d.name, d.size));
  }
  return einsum(inputs, all - reduced);
}

Tensor einsum(const Tensors& inputs, const Shape& output, const Shape& reduced) {
  const Shape summed =
      filtered(check_inputs(inputs), [&](const Dimension& d) { return !output.contains(d.name); });
  if (!same_dimensions(summed, reduced)) {
    shape_error("einsum", fmt::format("the output {} sums {}, not {}", output.to_string(), summed.to_string(),
                                      reduced.to_string()));
  }
  return einsum(inputs, output);
}

Tensor matmul(const Tensor& a, const Tensor& b) { return einsum({a, b}); }

ContractionClasses classify(const Shape& a, const Shape& b, const Shape& output) {
  const auto in = [](const Shape& shape, const Dimension& d) { return shape.contains(d.name); };
  ContractionClasses classes;
  classes.batch = filtered(a, [&](const Dimension& d) { return in(b, d) && in(output, d); });
  classes.rows = filtered(a, [&](const Dimension& d) { return !in(b, d); });
  classes.columns = filtered(b, [&](const Dimension& d) { return !in(a, d); });
  classes.summed = filtered(a, [&](const Dimension& d) { return in(b, d) && !in(output, d); });
  MTF_CHECK(classes.batch.rank() + classes.rows.rank() + classes.columns.rank() == output.rank(),
            "contraction of {} and {} to {}", a.to_string(), b.to_string(), output.to_string());
  return classes;
}

MatmulPrecision Einsum::precision_of(const Tensor& a, const Tensor& b) {
  const bool is_inner_product = a.shape().rank() == b.shape().rank() && a.shape() - b.shape() == Shape();
  if (is_inner_product) return MatmulPrecision::kFull;
  return precision_for(a.dtype(), a.graph().matmul_precision());
}

Tensor Einsum::wide_sum() const {
  const MatmulPrecisionScope scope(graph(), precision);
  return graph().add<Einsum>(input(0), input(1), output().shape(), DType::kFloat32).output();
}

Tensors Einsum::gradient(const Tensors& dy) const {
  const MatmulPrecisionScope scope(graph(), precision);
  const Tensor narrow = cast(dy[0], input(0).dtype());
  return {einsum({narrow, input(1)}, input(0).shape()), einsum({narrow, input(0)}, input(1).shape())};
}

ShardingRule Einsum::sharding_rule(const ShardingRequest& request) const {
  const Shape summed = classify(input(0).shape(), input(1).shape(), outputs()[0].shape).summed;
  ShardingRule rule = shard_reduction(*this, request, summed, Reduction::kSum);
  const Mesh& mesh = request.rules.mesh();
  const auto local_size = [&](const Shape& shape, const Layout& layout) {
    return slice_shape(shape, layout.reduced(), mesh).size();
  };
  Layout& output = rule.outputs[0];
  const int64_t output_size = local_size(outputs()[0].shape, output);
  for (int i = 0; i < 2; ++i) {
    if (output_size > local_size(input(i).shape(), rule.inputs[i])) continue;
    const int other = 1 - i;
    const AxisMask varying = rule.inputs[0].split_axes() | rule.inputs[1].split_axes() |
                             request.inputs[other].partial | request.inputs[other].split_axes();
    const AxisMask passes = request.inputs[i].partial & ~varying;
    rule.inputs[i].partial = passes;
    output.partial |= passes;
  }
  return rule;
}

Shape Einsum::joint_shape() const { return input(0).shape() + input(1).shape(); }

Cost Einsum::cost(const std::vector<Shape>& inputs, const std::vector<Shape>& outputs) const {
  Cost cost = Operation::cost(inputs, outputs);
  cost.flops = 2.0 * static_cast<double>((inputs[0] + inputs[1]).size());
  return cost;
}

}  // namespace mtf
