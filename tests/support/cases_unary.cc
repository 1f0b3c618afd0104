// Examples of the elementwise operations, the reductions, broadcast, transpose and cast.
#include "engine/ops/binary.h"
#include "engine/ops/broadcast.h"
#include "engine/ops/cast.h"
#include "engine/ops/reduce.h"
#include "engine/ops/transpose.h"
#include "engine/ops/unary.h"
#include "tests/support/operation_cases.h"

namespace mtf::testing {
namespace {

const Dimension a{"a", 4}, b{"b", 6}, c{"c", 8};

using Unary = Tensor (*)(const Tensor&);
using BinaryFunction = Tensor (*)(const Tensor&, const Tensor&);

CaseRegistration unary(std::string operations, Unary function, double low = -2, double high = 2) {
  return {std::move(operations), [=](CaseBuilder& build) {
            return Tensors{function(build.input("x", {a, b}, low, high))};
          }};
}

/// Operands have equal shapes, a suffix, a prefix, or form an outer product.
CaseRegistration binary(std::string operations, BinaryFunction function, double low = -2, double high = 2) {
  return {
      std::move(operations), [=](CaseBuilder& build) {
        const Tensor x = build.input("x", {a, b, c}, low, high), y = build.input("y", {a, b, c}, low, high);
        const Tensor suffix = build.input("suffix", {c}, low, high),
                     prefix = build.input("prefix", {a}, low, high);
        return Tensors{function(x, y), function(x, suffix), function(prefix, y), function(suffix, prefix)};
      }};
}

/// Uses whole numbers, so that there are ties; there is no gradient.
CaseRegistration integer_binary(std::string operations, BinaryFunction function) {
  return {std::move(operations), [=](CaseBuilder& build) {
            const Tensor x = build.ids("x", {a, b}, -3, 4), y = build.ids("y", {b}, 1, 4);
            return Tensors{function(x, y)};
          }};
}

CaseRegistration logical_binary(std::string operations, BinaryFunction function) {
  return {std::move(operations), [=](CaseBuilder& build) {
            const Tensor x = cast(build.ids("x", {a, b}, 0, 2), DType::kBool);
            const Tensor y = cast(build.ids("y", {b}, 0, 2), DType::kBool);
            return Tensors{function(x, y)};
          }};
}

/// Reduces to each subset of the dimensions, also in another order.
template <class Function>
CaseRegistration reduction(std::string operations, Function function, bool logical = false) {
  return {std::move(operations), [=](CaseBuilder& build) {
            const Tensor x =
                logical ? cast(build.ids("x", {a, b, c}, 0, 2), DType::kBool) : build.input("x", {a, b, c});
            Tensors results;
            for (const Shape& output :
                 {Shape{}, Shape{a}, Shape{b}, Shape{c}, Shape{a, b}, Shape{c, a}, Shape{c, b}}) {
              results.push_back(function(x, output));
            }
            return results;
          }};
}

const CaseRegistration unary_cases[] = {
    unary("identity", identity),
    unary("stop_gradient", stop_gradient),
    unary("negative", negative),
    unary("reciprocal", reciprocal, 0.5, 2),
    unary("square", square),
    unary("sqrt", sqrt, 0.5, 2),
    unary("rsqrt", rsqrt, 0.5, 2),
    unary("exp", exp),
    unary("log", log, 0.5, 2),
    unary("sin", sin),
    unary("cos", cos),
    unary("abs", abs),
    unary("sign", sign),
    unary(
        "pow", [](const Tensor& x) { return pow(x, 0.6); }, 0.5, 2),
    unary("scalar_multiply", [](const Tensor& x) { return scalar_multiply(x, -1.5); }),
    unary("scalar_add", [](const Tensor& x) { return scalar_add(x, 0.25); }),
    unary("relu relu_gradient", relu),
    unary("leaky_relu leaky_relu_gradient", [](const Tensor& x) { return leaky_relu(x); }),
    unary("elu elu_gradient", elu),
    unary("selu selu_gradient", selu),
    unary("softplus softplus_gradient", softplus),
    unary("sigmoid sigmoid_gradient", sigmoid),
    unary("tanh tanh_gradient", tanh),
    unary("swish swish_gradient", swish),
    unary("gelu gelu_gradient", gelu),
    unary("squared_relu squared_relu_gradient", squared_relu),
    unary("gelu_erf gelu_erf_gradient", gelu_erf),
    {"logical_not",
     [](CaseBuilder& build) {
       return Tensors{logical_not(cast(build.ids("x", {a, b}, 0, 2), DType::kBool))};
     }},
    {"cast",
     [](CaseBuilder& build) {
       const Tensor ids = build.ids("ids", {a, b}, -5, 6);
       return Tensors{cast(ids, build.floating) * build.input("x", {a, b}), cast(ids, DType::kBool),
                      cast(ids, DType::kInt64), cast(build.input("y", {a, b}, -3, 3), DType::kInt32)};
     }},
};

const CaseRegistration binary_cases[] = {
    binary("add", add),
    binary("subtract", subtract),
    binary("multiply", multiply),
    binary("divide", divide, 0.5, 2),
    binary("minimum", minimum),
    binary("maximum", maximum),
    integer_binary("floor_divide", floor_divide),
    integer_binary("modulo", modulo),
    integer_binary("less", less),
    integer_binary("greater", greater),
    integer_binary("less_equal", less_equal),
    integer_binary("greater_equal", greater_equal),
    integer_binary("equal", equal),
    integer_binary("not_equal", not_equal),
    logical_binary("logical_and", logical_and),
    logical_binary("logical_or", logical_or),
    {"where",
     [](CaseBuilder& build) {
       const Tensor condition = cast(build.ids("condition", {b}, 0, 2), DType::kBool);
       const Tensor x = build.input("x", {a, b}), y = build.input("y", {a, b}),
                    scalar = build.input("scalar", {});
       return Tensors{where(condition, x, y), where(condition, scalar, y),
                      where(condition, x, scalar, {b, a})};
     }},
};

const CaseRegistration other_cases[] = {
    reduction("reduce_sum", [](const Tensor& x, const Shape& output) { return reduce_sum(x, output); }),
    reduction("reduce_max", [](const Tensor& x, const Shape& output) { return reduce_max(x, output); }),
    reduction("reduce_min", [](const Tensor& x, const Shape& output) { return reduce_min(x, output); }),
    reduction("reduce_mean", [](const Tensor& x, const Shape& output) { return reduce_mean(x, output); }),
    reduction(
        "reduce_all", [](const Tensor& x, const Shape& output) { return reduce_all(x, output); }, true),
    reduction(
        "reduce_any", [](const Tensor& x, const Shape& output) { return reduce_any(x, output); }, true),
    {"reduce_first reduce_first_gradient",
     [](CaseBuilder& build) {
       const Tensor x = build.input("x", {a, b, c});
       return Tensors{reduce_first(x, "a"), reduce_first(x, "b"), reduce_first(x, "c")};
     }},
    {"sum_of_squares",
     [](CaseBuilder& build) {
       return Tensors{sum_of_squares(build.input("x", {a, b}))};
     }},
    {"broadcast",
     [](CaseBuilder& build) {
       const Tensor x = build.input("x", {b}), y = build.input("y", {a, b});
       return Tensors{broadcast(x, {a, b}), broadcast(x, {b, a}), broadcast(y, {b, c, a})};
     }},
    {"transpose",
     [](CaseBuilder& build) {
       const Tensor x = build.input("x", {a, b, c});
       return Tensors{transpose(x, {c, b, a}), transpose(x, {b, a, c}), transpose(x, {c, a, b})};
     }},
};

}  // namespace
}  // namespace mtf::testing
