#include "engine/graph/gradients.h"

#include <gtest/gtest.h>

#include <random>

#include "engine/graph/structural.h"
#include "engine/ops/binary.h"
#include "engine/ops/random.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"
#include "engine/spmd/passes/passes.h"
#include "tests/support/budget.h"
#include "tests/support/evaluate_tensors.h"
#include "tests/support/run_on_mesh.h"

namespace mtf::testing {
namespace {

const Shape kPair{{"a", 2}};

TEST(Gradients, AddTheContributionsOfAllUses) {
  Graph graph;
  const Tensor x = graph.input("x", kPair);
  const Tensor y = add(multiply(x, x), add(x, scalar_multiply(x, 3)));
  const Tensor dx = gradients({y}, {x})[0];
  EXPECT_EQ(evaluate(graph, {dx}, {{"x", {1, -2}}})[0], (Values{6, 0}));
}

TEST(Gradients, AreNullWhereNothingDepends) {
  Graph graph;
  const Tensor x = graph.input("x", kPair), other = graph.input("other", kPair);
  const Tensors dx = gradients({add(x, stop_gradient(other))}, {x, other});
  EXPECT_TRUE(dx[0]);
  EXPECT_FALSE(dx[1]);
}

TEST(Gradients, StartFromGivenCotangents) {
  Graph graph;
  const Tensor x = graph.input("x", kPair), seed = graph.input("seed", kPair);
  const Tensor dx = gradients({square(x)}, {x}, {seed})[0];
  EXPECT_EQ(evaluate(graph, {dx}, {{"x", {5, 10}}, {"seed", {2, 3}}})[0], (Values{20, 60}));
}

// Differentiates x^2 + x at [5, 10] with cotangents [2, 3].
TEST(CustomGradient, IsUsedInPlaceOfTheDerivedOne) {
  Graph graph;
  const Tensor x = graph.input("x", kPair), seed = graph.input("seed", kPair);
  const Tensor y =
      custom_gradient([](const Tensors& in) { return Tensors{add(square(in[0]), in[0])}; }, {x},
                      [](const Tensors& in, const Tensors&, const Tensors& dy) {
                        return Tensors{multiply(dy[0], scalar_add(scalar_multiply(in[0], 2), 1))};
                      })[0];
  const Tensor dx = gradients({y}, {x}, {seed})[0];
  const auto values = evaluate(graph, {y, dx}, {{"x", {5, 10}}, {"seed", {2, 3}}});
  EXPECT_EQ(values[0], (Values{30, 110}));
  EXPECT_EQ(values[1], (Values{22, 63}));
}

/// Returns gradients of a sequence of layers with weights and dropout; `wrap` decides which layers are
/// recomputed.
Tensors chain(
    Graph& graph,
    const std::function<Tensor(const std::function<Tensor(const Tensor&)>&, const Tensor&, int)>& wrap) {
  const Tensor x = graph.input("x", {{"batch", 4}, {"a", 6}});
  Tensor y = x;
  for (int layer = 0; layer < 3; ++layer) {
    const auto scope = graph.scope("layer_" + std::to_string(layer));
    const auto one = [&](const Tensor& in) {
      const Tensor w =
          graph.read(graph.variable(graph.scoped("w"), {{"a", 6}}, DType::kFloat32, Initializer::normal(1)));
      return tanh(dropout(multiply(in, w, in.shape()), 0.3));
    };
    y = wrap(one, y, layer);
  }
  Tensors targets{x};
  for (const auto& variable : graph.variables()) targets.push_back(graph.read(*variable));
  return gradients({reduce_sum(square(y), Shape())}, targets);
}

std::map<std::string, Values> gradients_of(
    const std::function<Tensor(const std::function<Tensor(const Tensor&)>&, const Tensor&, int)>& wrap) {
  Graph graph;
  const Tensors dx = chain(graph, wrap);
  for (size_t i = 0; i < dx.size(); ++i) graph.set_output(std::to_string(i), dx[i]);
  Values x(24);
  for (size_t i = 0; i < x.size(); ++i) x[i] = 0.1 * static_cast<double>(i) - 1;
  return run_on_mesh(graph, layouts("x:2;y:2", "batch:x;a:y"), {{"x", x}}).outputs;
}

TEST(Recompute, GivesTheSameGradientsAndRandomBits) {
  const auto plain = gradients_of([](const auto& layer, const Tensor& x, int) { return layer(x); });
  const auto again = gradients_of([](const auto& layer, const Tensor& x, int) {
    return recompute([&](const Tensors& in) { return Tensors{layer(in[0])}; }, {x})[0];
  });
  EXPECT_EQ(again, plain);
}

TEST(Recompute, MayBeNested) {
  const auto plain = gradients_of([](const auto& layer, const Tensor& x, int) { return square(layer(x)); });
  const auto nested = gradients_of([](const auto& layer, const Tensor& x, int) {
    const auto inner = [&](const Tensors& in) { return Tensors{layer(in[0])}; };
    return recompute([&](const Tensors& in) { return Tensors{square(recompute(inner, in)[0])}; }, {x})[0];
  });
  EXPECT_EQ(nested, plain);
}

TEST(Recompute, WhatComesBeforeAnInputIsDifferentiatedOnce) {
  Graph graph;
  const Tensor x = graph.input("x", kPair);
  Tensor y = x;
  for (int layer = 0; layer < 3; ++layer)
    y = recompute([&](const Tensors& in) { return Tensors{multiply(in[0], x)}; }, {y})[0];
  const Tensor dx = gradients({y}, {x})[0];
  EXPECT_EQ(evaluate(graph, {dx}, {{"x", {2, 3}}})[0], (Values{32, 108}));  // y is x^4
}

/// Returns the gradients of a random function by its three inputs. The function contains functions, to a
/// depth of three, that read any tensor made before.
std::vector<Values> random_gradients(uint32_t seed, bool again) {
  Graph graph;
  std::mt19937 random(seed);
  const auto below = [&](size_t n) { return random() % n; };
  Tensors xs, made;
  for (const char* name : {"x", "y", "z"}) xs.push_back(graph.input(name, kPair));
  made = xs;
  const std::function<Tensors(const Tensors&, int)> body = [&](const Tensors& in, int depth) {
    Tensors inside = in;
    for (size_t step = 0; step < 3; ++step) {
      const Tensor a = inside[below(inside.size())], b = made[below(made.size())];
      const Tensors both = {a, b};
      const auto inner = [&](const Tensors& tensors) { return body(tensors, depth + 1); };
      if (depth < 2 && below(2) == 0) {
        const Tensors results = again ? recompute(inner, both) : inner(both);
        inside.insert(inside.end(), results.begin(), results.end());
      } else {
        inside.push_back(below(2) == 0 ? tanh(multiply(a, b)) : add(a, b));
      }
    }
    if (depth == 0) made.push_back(inside.back());
    return Tensors{inside.back(), inside[below(inside.size())]};
  };
  for (int i = 0; i < 4; ++i) body({made[below(made.size())]}, 0);
  const Tensors dx = gradients({made.back(), made[made.size() - 2]}, xs);
  Tensors found;
  for (const Tensor& tensor : dx)
    if (tensor) found.push_back(tensor);
  return evaluate(graph, found, {{"x", {0.3, -0.7}}, {"y", {1.1, 0.2}}, {"z", {-0.4, 0.9}}});
}

TEST(Recompute, GradientsOfRandomFunctionsAreTheSame) {
  for (int seed = 0; seed < tries(100); ++seed) {
    const auto plain = random_gradients(seed, false), again = random_gradients(seed, true);
    ASSERT_EQ(again.size(), plain.size()) << seed;
    for (size_t i = 0; i < plain.size(); ++i)
      ASSERT_LE(relative_difference(again[i], plain[i]), 1e-5) << seed << " " << i;
  }
}

TEST(Recompute, KeepsNoActivationsForTheBackwardPass) {
  const auto peak = [](bool again) {
    Graph graph;
    Tensor y = graph.input("x", {{"a", kSharedBytes}});  // smaller results are kept
    const Tensor x = y;
    for (int layer = 0; layer < 8; ++layer) {
      const auto many = [](const Tensors& in) { return Tensors{sin(exp(sin(exp(sin(in[0])))))}; };
      y = again ? recompute(many, {y})[0] : many({y})[0];
    }
    graph.set_output("dx", gradients({y}, {x})[0]);
    return plan_memory(partition(graph, Layouts::single())).position().temporaries;
  };
  EXPECT_LT(2 * peak(true), peak(false));
}

}  // namespace
}  // namespace mtf::testing
