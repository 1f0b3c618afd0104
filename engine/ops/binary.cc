#include "engine/ops/binary.h"

#include <fmt/format.h>

#include <type_traits>

#include "engine/graph/graph.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"

namespace mtf {
namespace {

struct BinaryInfo {
  std::string_view name;
  unsigned operands;
  bool to_bool;
};

template <template <class> class Formula>
constexpr BinaryInfo info_of(std::string_view name) {
  using F = Formula<void>;
  using Operand = std::conditional_t<F::kOperands == formulas::kBools, bool, float>;
  return {name, F::kOperands, std::is_same_v<decltype(F::f(Operand(), Operand())), bool>};
}

constexpr BinaryInfo kBinaryFunctions[] = {
#define MTF_INFO(Formula, name) info_of<formulas::Formula>(#name),
    MTF_BINARY_FUNCTIONS(MTF_INFO)
#undef MTF_INFO
};

const BinaryInfo& info(BinaryFunction function) { return kBinaryFunctions[static_cast<size_t>(function)]; }

using enum BinaryFunction;

void check_dtypes(std::string_view operation, const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype()) {
    shape_error(operation, fmt::format("the operands are {} and {}", name_of(a.dtype()), name_of(b.dtype())),
                "cast one of them");
  }
}

void check_output(std::string_view operation, const Tensor& operand, const Shape& output) {
  if (!output.contains_all(operand.shape())) {
    shape_error(operation,
                fmt::format("the output {} lacks dimensions of operand {}", output.to_string(),
                            operand.shape().to_string()),
                "an operand is repeated along missing dimensions, never summed");
  }
}

/// True if `a` is `b` without some of its dimensions.
bool is_subsequence(const Shape& a, const Shape& b) {
  int matched = 0;
  for (const Dimension& d : b) {
    if (matched < a.rank() && a[matched] == d) ++matched;
  }
  return matched == a.rank();
}

/// Returns the first input from `first` on that has the output's shape and dtype.
std::optional<int> operand_like_output(const Operation& operation, int first) {
  const OutputInfo& output = operation.outputs()[0];
  for (int i = first; i < static_cast<int>(operation.inputs().size()); ++i) {
    const Tensor& x = operation.input(i);
    if (x.shape() == output.shape && x.dtype() == output.dtype) return i;
  }
  return std::nullopt;
}

Tensor zero_like(const Tensor& x) { return x.graph().constant(0, x.dtype()); }

Tensor apply(BinaryFunction function, const Tensor& a, const Tensor& b, const Shape& output) {
  return a.graph().add<Binary>(function, a, b, output).output();
}

Tensor apply(BinaryFunction function, const Tensor& a, const Tensor& b) {
  return apply(function, a, b, broadcast_shape(info(function).name, a.shape(), b.shape()));
}

}  // namespace

Shape broadcast_shape(std::string_view operation, const Shape& a, const Shape& b) {
  for (const Dimension& d : a) {
    if (b.contains(d.name) && !b.contains(d)) {
      shape_error(operation,
                  fmt::format("`{}` has size {} in {} and size {} in {}", d.name, d.size, a.to_string(),
                              b.dimension(d.name).size, b.to_string()),
                  "rename one of the dimensions");
    }
  }
  if (is_subsequence(a, b)) return b;
  return is_subsequence(b, a) ? a : a + b;
}

Binary::Binary(BinaryFunction function, const Tensor& a, const Tensor& b, const Shape& output)
    : OperationBase({a, b}, {{output, info(function).to_bool ? DType::kBool : a.dtype()}}),
      function(function) {
  check_dtypes(name(), a, b);
  if ((info(function).operands & formulas::kind_of(a.dtype())) == 0) {
    shape_error(name(), fmt::format("not defined for {}", name_of(a.dtype())), "cast the operands first");
  }
  check_output(name(), a, output);
  check_output(name(), b, output);
}

std::string_view Binary::name() const { return info(function).name; }

std::optional<int> Binary::in_place(int) const { return operand_like_output(*this, 0); }

ShardingRule Binary::sharding_rule(const ShardingRequest& request) const {
  const Shape &a = input(0).shape(), &b = input(1).shape(), &y = outputs()[0].shape;
  const bool additive = function == kAdd || function == kSubtract;
  if (additive && same_dimensions(a, b) && same_dimensions(a, y)) return shard_linear(*this, request, {0, 1});
  const bool partial_b = request.inputs[1].partial != 0 && request.inputs[0].partial == 0;
  if (function == kMultiply && a.rank() == 0 && same_dimensions(b, y) && (b.rank() > 0 || partial_b)) {
    return shard_linear(*this, request, {1});
  }
  if ((function == kMultiply || function == kDivide) && b.rank() == 0 && same_dimensions(a, y)) {
    return shard_linear(*this, request, {0});
  }
  return shard_by_name(*this, request);
}

Tensors Binary::gradient(const Tensors& dys) const {
  const Tensor &a = input(0), &b = input(1), &dy = dys[0];
  const Tensor y = output();
  const auto summed = [](const Tensor& d, const Tensor& operand) { return reduce_sum(d, operand.shape()); };
  switch (function) {
    case kAdd:
      return {summed(dy, a), summed(dy, b)};
    case kSubtract:
      return {summed(dy, a), negative(summed(dy, b))};
    case kMultiply:
      return {summed(multiply(dy, b, y.shape()), a), summed(multiply(dy, a, y.shape()), b)};
    case kDivide: {
      const Tensor da = divide(dy, b, y.shape());
      return {summed(da, a), negative(summed(da * y, b))};
    }
    case kMinimum:
    case kMaximum: {
      const auto where_chosen = [&](const Tensor& operand) {
        return summed(where(equal(operand, y, y.shape()), dy, zero_like(dy), y.shape()), operand);
      };
      return {where_chosen(a), where_chosen(b)};
    }
    case kFloorDivide:
    case kModulo:
      if (is_floating(a.dtype())) shape_error(name(), "has no gradient", "stop_gradient() its operands");
      return {Tensor(), Tensor()};
    default:
      return {Tensor(), Tensor()};
  }
}

Where::Where(const Tensor& condition, const Tensor& a, const Tensor& b, const Shape& output)
    : OperationBase({condition, a, b}, {{output, a.dtype()}}) {
  if (condition.dtype() != DType::kBool) {
    shape_error(name(), fmt::format("the condition is {}", name_of(condition.dtype())),
                "a condition is bool");
  }
  check_dtypes(name(), a, b);
  for (const Tensor& operand : inputs()) check_output(name(), operand, output);
}

std::optional<int> Where::in_place(int) const { return operand_like_output(*this, 1); }

Tensors Where::gradient(const Tensors& dys) const {
  const Tensor &condition = input(0), &dy = dys[0], zero = zero_like(dy);
  const Shape& shape = dy.shape();
  return {Tensor(), reduce_sum(where(condition, dy, zero, shape), input(1).shape()),
          reduce_sum(where(condition, zero, dy, shape), input(2).shape())};
}

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b, const Shape& output) {
  return a.graph().add<Where>(condition, a, b, output).output();
}

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  const Shape branches = broadcast_shape("where", a.shape(), b.shape());
  return where(condition, a, b, broadcast_shape("where", branches, condition.shape()));
}

Tensor add(const Tensor& a, const Tensor& b) { return apply(kAdd, a, b); }
Tensor add(const Tensor& a, const Tensor& b, const Shape& output) { return apply(kAdd, a, b, output); }
Tensor subtract(const Tensor& a, const Tensor& b) { return apply(kSubtract, a, b); }
Tensor subtract(const Tensor& a, const Tensor& b, const Shape& output) {
  return apply(kSubtract, a, b, output);
}
Tensor multiply(const Tensor& a, const Tensor& b) { return apply(kMultiply, a, b); }
Tensor multiply(const Tensor& a, const Tensor& b, const Shape& output) {
  return apply(kMultiply, a, b, output);
}
Tensor divide(const Tensor& a, const Tensor& b) { return apply(kDivide, a, b); }
Tensor divide(const Tensor& a, const Tensor& b, const Shape& output) { return apply(kDivide, a, b, output); }
Tensor minimum(const Tensor& a, const Tensor& b) { return apply(kMinimum, a, b); }
Tensor minimum(const Tensor& a, const Tensor& b, const Shape& output) {
  return apply(kMinimum, a, b, output);
}
Tensor maximum(const Tensor& a, const Tensor& b) { return apply(kMaximum, a, b); }
Tensor maximum(const Tensor& a, const Tensor& b, const Shape& output) {
  return apply(kMaximum, a, b, output);
}
Tensor floor_divide(const Tensor& a, const Tensor& b) { return apply(kFloorDivide, a, b); }
Tensor floor_divide(const Tensor& a, const Tensor& b, const Shape& output) {
  return apply(kFloorDivide, a, b, output);
}
Tensor modulo(const Tensor& a, const Tensor& b) { return apply(kModulo, a, b); }
Tensor modulo(const Tensor& a, const Tensor& b, const Shape& output) { return apply(kModulo, a, b, output); }
Tensor less(const Tensor& a, const Tensor& b) { return apply(kLess, a, b); }
Tensor less(const Tensor& a, const Tensor& b, const Shape& output) { return apply(kLess, a, b, output); }
Tensor greater(const Tensor& a, const Tensor& b) { return apply(kGreater, a, b); }
Tensor greater(const Tensor& a, const Tensor& b, const Shape& output) {
  return apply(kGreater, a, b, output);
}
Tensor less_equal(const Tensor& a, const Tensor& b) { return apply(kLessEqual, a, b); }
Tensor less_equal(const Tensor& a, const Tensor& b, const Shape& output) {
  return apply(kLessEqual, a, b, output);
}
Tensor greater_equal(const Tensor& a, const Tensor& b) { return apply(kGreaterEqual, a, b); }
Tensor greater_equal(const Tensor& a, const Tensor& b, const Shape& output) {
  return apply(kGreaterEqual, a, b, output);
}
Tensor equal(const Tensor& a, const Tensor& b) { return apply(kEqual, a, b); }
Tensor equal(const Tensor& a, const Tensor& b, const Shape& output) { return apply(kEqual, a, b, output); }
Tensor not_equal(const Tensor& a, const Tensor& b) { return apply(kNotEqual, a, b); }
Tensor not_equal(const Tensor& a, const Tensor& b, const Shape& output) {
  return apply(kNotEqual, a, b, output);
}
Tensor logical_and(const Tensor& a, const Tensor& b) { return apply(kLogicalAnd, a, b); }
Tensor logical_and(const Tensor& a, const Tensor& b, const Shape& output) {
  return apply(kLogicalAnd, a, b, output);
}
Tensor logical_or(const Tensor& a, const Tensor& b) { return apply(kLogicalOr, a, b); }
Tensor logical_or(const Tensor& a, const Tensor& b, const Shape& output) {
  return apply(kLogicalOr, a, b, output);
}

}  // namespace mtf
