#include "engine/ops/unary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "engine/base/error.h"
#include "engine/graph/gradients.h"
#include "tests/support/evaluate_tensors.h"
#include "tests/support/failure.h"
#include "tests/support/golden.h"
#include "tests/support/unary_cases.h"

namespace mtf::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Function = std::function<Tensor(const Tensor&)>;

Values values_of(const Function& function, const Values& x, DType dtype = DType::kFloat32) {
  Graph graph;
  const Tensor input = graph.input("x", {{"n", static_cast<int64_t>(x.size())}}, dtype);
  return evaluate(graph, {function(input)}, {{"x", x}})[0];
}

/// Returns the gradient of the sum of y.
Values slope(const Function& function, const Values& x, DType dtype = DType::kFloat32) {
  Graph graph;
  const Tensor input = graph.input("x", {{"n", static_cast<int64_t>(x.size())}}, dtype);
  return evaluate(graph, gradients({function(input)}, {input}), {{"x", x}})[0];
}

TEST(Unary, AgreesWithTheGoldenActivations) {
  GoldenCase golden(MTF_SOURCE_DIR "/tests/golden/01_core_activations");
  Graph graph;
  const Tensor x = golden.input(graph, "x"), positive = scalar_add(square(x), 0.5);
  golden.expect(graph, {{"abs", abs(x)},
                        {"cos", cos(x)},
                        {"elu", elu(x)},
                        {"exp", exp(x)},
                        {"gelu", gelu(x)},
                        {"leaky_relu", leaky_relu(x, 0.2)},
                        {"log", log(positive)},
                        {"negative", negative(x)},
                        {"pow", pow(positive, 0.6)},
                        {"reciprocal", reciprocal(positive)},
                        {"relu", relu(x)},
                        {"rsqrt", rsqrt(positive)},
                        {"selu", selu(x)},
                        {"sigmoid", sigmoid(x)},
                        {"sign", sign(x)},
                        {"sin", sin(x)},
                        {"softplus", softplus(x)},
                        {"sqrt", sqrt(positive)},
                        {"square", square(x)},
                        {"squared_relu", squared_relu(x)},
                        {"swish", swish(x)},
                        {"tanh", tanh(x)}});
}

TEST(Unary, GradientsAtZero) {
  const Values zero = {0};
  EXPECT_EQ(slope(relu, zero), (Values{0}));
  EXPECT_EQ(slope(squared_relu, zero), (Values{0}));
  EXPECT_EQ(slope([](const Tensor& x) { return leaky_relu(x, 0.25); }, zero), (Values{0.25}));
  EXPECT_EQ(slope(abs, zero), (Values{0}));
  EXPECT_EQ(slope(elu, zero), (Values{1}));
  EXPECT_NEAR(slope(selu, zero)[0], 1.0507009873554805, 1e-6);
  EXPECT_EQ(values_of(sign, {-2, 0, 3}), (Values{-1, 0, 1}));
}

TEST(Unary, NaNComesOut) {
  for (const UnaryCase& function : kUnaryCases) {
    for (DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat64}) {
      Values x(40, 0.5);  // long enough for the vectorised part of the loop
      x[3] = x[39] = kNaN;
      const Values y = values_of(function, x, dtype);
      EXPECT_TRUE(std::isnan(y[3]) && std::isnan(y[39]) && !std::isnan(y[4])) << name_of(dtype);
    }
  }
}

TEST(Unary, HugeArgumentsGiveTheLimits) {
  const Values huge = {-kInfinity, -1e30, -200, 200, 1e30, kInfinity};
  EXPECT_THAT(values_of(exp, huge), ElementsAre(0, 0, 0, kInfinity, kInfinity, kInfinity));
  EXPECT_THAT(values_of(tanh, huge), ElementsAre(-1, -1, -1, 1, 1, 1));
  EXPECT_THAT(values_of(sigmoid, huge), ElementsAre(0, 0, 0, 1, 1, 1));
  EXPECT_THAT(values_of(elu, {-kInfinity, -200}), ElementsAre(-1, -1));
  EXPECT_THAT(values_of(softplus, {-kInfinity, -200, 200, kInfinity}), ElementsAre(0, 0, 200, kInfinity));
  EXPECT_THAT(values_of(gelu, {-1e20, -200, 200, 1e20}), ElementsAre(0, 0, 200, static_cast<float>(1e20)));
  EXPECT_THAT(slope(gelu, {-1e20, -200, 200, 1e20}), ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(slope(swish, {-1e20, -200, 200, 1e20}), ElementsAre(0, 0, 1, 1));
  const Values logs = values_of(log, {0, 1, kInfinity, -1});
  EXPECT_THAT((Values{logs[0], logs[1], logs[2]}), ElementsAre(-kInfinity, 0, kInfinity));
  EXPECT_TRUE(std::isnan(logs[3]));
}

struct Accuracy {
  const char* name;
  Function function;
  double (*exact)(double);
  double low, high;
};

TEST(Unary, Float32IsAccurateTo2Parts10ToThe7) {
  const std::vector<Accuracy> functions = {
      {"exp", exp, std::exp, -87, 88},
      {"log", log, std::log, 1e-30, 1e4},
      {"log near 1", log, std::log, 0.5, 2},
      {"tanh", tanh, std::tanh, -10, 10},
      {"sigmoid", sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }, -80, 20},
      {"softplus", softplus, [](double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); },
       -80, 20},
      {"elu", elu, [](double x) { return x > 0 ? x : std::expm1(x); }, -20, 1},
      {"elu near 0", elu, [](double x) { return x > 0 ? x : std::expm1(x); }, -1e-6, 0},
  };
  for (const auto& [name, function, exact, low, high] : functions) {
    Values x(100'000);
    for (size_t i = 0; i < x.size(); ++i) {
      x[i] = static_cast<float>(low + (high - low) * static_cast<double>(i) / static_cast<double>(x.size()));
    }
    const Values y = values_of(function, x);
    double worst = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      if (exact(x[i]) != 0) worst = std::max(worst, std::abs(y[i] / exact(x[i]) - 1));
    }
    EXPECT_LT(worst, 2e-7) << name;
  }
}

TEST(Unary, BFloat16IsRoundedOnceFromFloat32) {
  const Values x = {0.5, -1.25, 3};
  const Values y = values_of(gelu, x, DType::kBFloat16), exact = values_of(gelu, x, DType::kFloat32);
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(y[i], static_cast<float>(BFloat16(static_cast<float>(exact[i]))));
  }
}

TEST(Unary, WorksOnIntegersWhereThatMakesSense) {
  for (DType dtype : {DType::kInt32, DType::kInt64}) {
    EXPECT_THAT(values_of(negative, {-3, 0, 4}, dtype), ElementsAre(3, 0, -4));
    EXPECT_THAT(values_of(square, {-3, 0, 4}, dtype), ElementsAre(9, 0, 16));
    EXPECT_THAT(values_of(abs, {-3, 0, 4}, dtype), ElementsAre(3, 0, 4));
    EXPECT_THAT(
        values_of([](const Tensor& x) { return scalar_add(scalar_multiply(x, 3), -1); }, {-3, 0, 4}, dtype),
        ElementsAre(-10, -1, 11));
  }
  EXPECT_THAT(values_of(logical_not, {0, 1}, DType::kBool), ElementsAre(1, 0));
}

TEST(Unary, PowersOfNegativeNumbersNeedAWholeExponent) {
  EXPECT_THAT(values_of([](const Tensor& x) { return pow(x, 3); }, {-2, 0, 2}), ElementsAre(-8, 0, 8));
  EXPECT_TRUE(std::isnan(values_of([](const Tensor& x) { return pow(x, 0.5); }, {-2})[0]));
}

TEST(Unary, StopGradientStopsIt) {
  Graph graph;
  const Tensor x = graph.input("x", {{"n", 2}});
  EXPECT_FALSE(gradients({stop_gradient(x)}, {x})[0]);
  EXPECT_TRUE(gradients({identity(x)}, {x})[0]);
  EXPECT_EQ(values_of(stop_gradient, {1, -2}), (Values{1, -2}));
}

TEST(Unary, LinearFunctionsPassPartialSums) {
  Graph graph;
  const Tensor x = graph.input("x", {{"n", 4}});
  const Mesh mesh(Shape::parse("rows:2"));
  const LayoutMap rules(mesh, LayoutRules());
  const Layout partial{{{}}, axis_bit(0)};
  for (const Tensor& y : {negative(x), scalar_multiply(x, 2), identity(x), stop_gradient(x)}) {
    EXPECT_EQ(y.operation().sharding_rule({rules, {partial}}).outputs[0], partial) << y.operation().name();
  }
  for (const Tensor& y : {relu(x), scalar_add(x, 1)}) {
    EXPECT_EQ(y.operation().sharding_rule({rules, {partial}}).inputs[0].partial, 0u) << y.operation().name();
  }
}

TEST(Unary, RejectsWhatMakesNoSense) {
  Graph graph;
  const Tensor ids = graph.input("ids", {{"n", 4}}, DType::kInt32), x = graph.input("x", {{"n", 4}});
  EXPECT_THAT(failure([&] { exp(ids); }), HasSubstr("exp: not defined for int32"));
  EXPECT_THAT(failure([&] { logical_not(x); }), HasSubstr("logical_not: not defined for float32"));
  EXPECT_THAT(failure([&] { scalar_multiply(ids, 0.5); }),
              HasSubstr("scalar_multiply: 0.5 is not a whole number"));
  const Tensor slope = gradients({gelu(x)}, {x})[0];
  EXPECT_THAT(failure([&] { gradients({slope}, {x}); }),
              HasSubstr("gelu_gradient: cannot be differentiated again"));
}

}  // namespace
}  // namespace mtf::testing
