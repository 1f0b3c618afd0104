#include "engine/ops/pool.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

#include "engine/graph/gradients.h"
#include "tests/support/budget.h"
#include "tests/support/failure.h"
#include "tests/support/golden.h"
#include "tests/support/random_windows.h"
#include "tests/support/run_on_mesh.h"
#include "tests/support/test_backend.h"

namespace mtf::testing {
namespace {

using ::testing::HasSubstr;

TEST(Pool, HasTheRecordedValuesAndGradients) {
  GoldenCase golden(MTF_SOURCE_DIR "/tests/golden/01_core_pool");
  Graph graph;
  const Tensor x2 = golden.input(graph, "x2"), x3 = golden.input(graph, "x3");
  const auto halves = [](const Tensor& x, const std::vector<std::string>& dimensions) {
    std::vector<Window> windows;
    for (const std::string& d : dimensions)
      windows.push_back(
          window_over(x.shape().dimension(d), {.size = 2, .stride = 2, .padding = Padding::valid()}));
    return windows;
  };
  const auto two = halves(x2, {"h", "w"}), three = halves(x3, {"dd", "h", "w"});
  golden.expect(graph, {{"max2d", window_max(x2, two)},
                        {"avg2d", window_mean(x2, two)},
                        {"max3d", window_max(x3, three)},
                        {"avg3d", window_mean(x3, three)}});
}

struct PoolProblem {
  Shape shape;
  std::vector<Window> windows;

  std::string to_string() const { return shape.to_string() + " by " + mtf::to_string(windows); }
};

/// Windows along some dimensions of [batch, rows, cols, depth] in any order. Each has an entry.
PoolProblem random_problem(std::mt19937& random, int64_t parts, bool onto) {
  while (true) {
    PoolProblem problem;
    std::vector<Dimension> dimensions;
    for (const char* name : {"batch", "rows", "cols", "depth"}) {
      Dimension d{name, parts * up_to(random, 4)};
      if (random() % 2) {
        const Window w = random_window(random, name, "", onto, parts);
        d.size = onto ? w.windows.size : w.entries.size;
        problem.windows.push_back(w);
      }
      dimensions.insert(dimensions.begin() + static_cast<std::ptrdiff_t>(random() % (dimensions.size() + 1)),
                        d);
    }
    problem.shape = Shape(dimensions);
    if (problem.shape.size() > 8000) continue;
    if (onto) return problem;
    Graph graph;
    try {
      window_max(graph.input("x", problem.shape), problem.windows);
      return problem;
    } catch (const Error&) {
      // A window reads only padding.
    }
  }
}

std::vector<int64_t> index_of(const Shape& shape, int64_t i) {
  std::vector<int64_t> index(static_cast<size_t>(shape.rank()));
  for (int a = shape.rank(); a-- > 0; i /= shape[a].size) index[static_cast<size_t>(a)] = i % shape[a].size;
  return index;
}

/// Calls visit(window, entry) for all pairs of elements of which the window reads the entry, places in their order.
void for_each_read(const Shape& windows, const Shape& entries, const std::vector<Window>& all,
                   const std::function<void(int64_t window, int64_t entry)>& visit) {
  int64_t places = 1;
  for (const Window& w : all) places *= w.size;
  for (int64_t i = 0; i < windows.size(); ++i) {
    for (int64_t place = 0; place < places; ++place) {
      std::vector<int64_t> index = index_of(windows, i);
      int64_t rest = place;
      bool inside = true;
      for (size_t w = all.size(); w-- > 0; rest /= all[w].size) {
        int64_t& at = index[static_cast<size_t>(*windows.find(all[w].dimension))];
        at = at * all[w].stride - all[w].before + rest % all[w].size * all[w].dilation;
        inside = inside && at >= 0 && at < all[w].entries.size;
      }
      if (!inside) continue;
      int64_t entry = 0;
      for (int a = 0; a < entries.rank(); ++a)
        entry = entry * entries[a].size + index[static_cast<size_t>(a)];
      visit(i, entry);
    }
  }
}

struct PoolGraph {
  Graph graph;
  std::map<std::string, Values> feeds;
  Shape result;
};

std::unique_ptr<PoolGraph> pool_graph(const PoolProblem& problem, bool onto, uint32_t seed,
                                      DType dtype = DType::kFloat32) {
  auto built = std::make_unique<PoolGraph>();
  std::mt19937 random(seed);
  const auto input = [&](const std::string& name, const Shape& shape) {
    // Few values, so that maxima are often equal.
    for (int64_t i = 0; i < shape.size(); ++i)
      built->feeds[name].push_back(static_cast<double>(random() % 7) - 3);
    return built->graph.input(name, shape, dtype);
  };
  const Tensor x = input("x", problem.shape);
  std::map<std::string, Tensor> ys;
  if (onto) {
    ys = {{"spread", spread(x, problem.windows, 0.5)}};
  } else {
    ys = {{"sum", window_sum(x, problem.windows, 0.5)},
          {"mean", window_mean(x, problem.windows)},
          {"max", window_max(x, problem.windows)}};
  }
  built->result = ys.begin()->second.shape();
  const Tensor dy = input("dy", built->result);
  for (const auto& [name, y] : ys) {
    built->graph.set_output(name, y);
    built->graph.set_output("d_" + name, gradients({y}, {x}, {dy})[0]);
  }
  return built;
}

std::map<std::string, Values> pool_by_definition(const PoolProblem& problem, const PoolGraph& built,
                                                 bool onto) {
  const Values &x = built.feeds.at("x"), &dy = built.feeds.at("dy");
  std::map<std::string, Values> out;
  if (onto) {
    Values &y = out["spread"] = Values(dy.size()), &dx = out["d_spread"] = Values(x.size());
    for_each_read(problem.shape, built.result, problem.windows, [&](int64_t window, int64_t entry) {
      y[entry] += 0.5 * x[window];
      dx[window] += 0.5 * dy[entry];
    });
    return out;
  }
  Values count(dy.size()), best(dy.size(), -1e30);
  std::vector<int64_t> place(dy.size());
  for (const char* name : {"sum", "mean", "max"}) {
    out[name] = Values(dy.size());
    out[std::string("d_") + name] = Values(x.size());
  }
  const auto each = [&](const auto& visit) {
    for_each_read(built.result, problem.shape, problem.windows, visit);
  };
  each([&](int64_t window, int64_t entry) {
    out["sum"][window] += 0.5 * x[entry];
    out["d_sum"][entry] += 0.5 * dy[window];
    count[window] += 1;
    if (x[entry] > best[window]) best[window] = x[entry], place[window] = entry;
  });
  each([&](int64_t window, int64_t entry) {
    out["mean"][window] += x[entry] / count[window];
    out["d_mean"][entry] += dy[window] / count[window];
    if (place[window] == entry) out["d_max"][entry] += dy[window];
  });
  out["max"] = best;
  return out;
}

void expect_definition(const PoolProblem& problem, bool onto, uint32_t seed, DType dtype) {
  const auto built = pool_graph(problem, onto, seed, dtype);
  const auto expected = pool_by_definition(problem, *built, onto);
  const MeshRun run = run_on_mesh(built->graph, Layouts::single(), built->feeds);
  const double tolerance = dtype == DType::kFloat32 ? 1e-6 : 8e-3;
  for (const auto& [name, values] : expected)
    expect_close(fmt::format("{}: {} of {}", seed, name, problem.to_string()), run.outputs.at(name), values,
                 tolerance);
}

TEST(Pool, IsWhatItsDefinitionSays) {
  std::mt19937 random(7);
  for (int i = 0; i < tries(600); ++i) {
    const bool onto = i % 3 == 0;
    const PoolProblem problem = random_problem(random, 1, onto);
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      expect_definition(problem, onto, static_cast<uint32_t>(i), dtype);
      if (HasFailure()) return;
    }
  }
}

// What is too large to be computed at a time: lines, channels, both; and a vector of one window after the other.
TEST(Pool, IsWhatItsDefinitionSaysOfLargeTensors) {
  const Dimension rows{"rows", 3}, line{"line", 47}, channels{"channels", 1100}, few{"few", 90};
  const auto halves = [](const Dimension& d, bool onto) {
    const WindowOptions options{.size = 3, .stride = 2};
    return onto ? window_onto(d, options) : window_over(d, options);
  };
  uint32_t seed = 0;
  for (const bool onto : {false, true}) {
    const Dimension flat{"flat", onto ? 4001 : 9001};
    for (const PoolProblem& problem :
         {PoolProblem{{rows, line, few}, {halves(rows, onto), halves(line, onto)}},
          PoolProblem{{line, channels}, {halves(line, onto)}},
          PoolProblem{{line, rows, few}, {halves(line, onto)}},
          PoolProblem{{rows, flat}, {halves(flat, onto)}}})
      expect_definition(problem, onto, seed++, DType::kFloat32);
  }
}

TEST(Pool, HasTheSameBitsWhereverItIsSplit) {
  // A device visits the windows over an entry in an order that depends on the shape.
  const bool exact = test_backend()->is_host();
  std::mt19937 random(9);
  const std::tuple<const char*, int64_t, int> meshes[] = {
      {"a:2", 2, 1}, {"a:4", 4, 1}, {"a:3", 3, 1}, {"a:2;b:2", 2, 2}};
  for (int i = 0; i < tries(600); ++i) {
    const auto& [mesh, parts, rank] = meshes[random() % std::size(meshes)];
    const bool onto = i % 3 == 0;
    const PoolProblem problem = random_problem(random, parts, onto);
    std::vector<std::string> names = problem.shape.names();
    std::ranges::shuffle(names, random);
    std::string rules = names[0] + ":a";
    if (rank == 2) rules += ";" + names[1] + ":b";
    const auto built = pool_graph(problem, onto, static_cast<uint32_t>(i));
    const MeshRun one = run_on_mesh(built->graph, Layouts::single(), built->feeds);
    const MeshRun split = run_on_mesh(built->graph, layouts(mesh, rules), built->feeds);
    for (const auto& [name, values] : one.outputs) {
      const std::string what = fmt::format("{}: {} of {} by {}", i, name, problem.to_string(), rules);
      if (exact) {
        ASSERT_EQ(split.outputs.at(name), values) << what;
      } else {
        ASSERT_LE(relative_difference(split.outputs.at(name), values), 1e-6) << what;
      }
    }
  }
}

TEST(Pool, KeepsNaN) {
  Graph graph;
  const Dimension n{"n", 6};
  const Tensor x = graph.input("x", {n});
  const Tensor y = window_max(x, {window_over(n, {.size = 3, .stride = 3})});
  const auto results = evaluate(graph, {y, gradients({y}, {x})[0]}, {{"x", {1, kNaN, 3, 4, 4, -kInfinity}}});
  EXPECT_TRUE(std::isnan(results[0][0]));
  EXPECT_EQ(results[0][1], 4);
  EXPECT_EQ(results[1], (Values{0, 1, 0, 1, 0, 0}));
}

TEST(Pool, RejectsWhatDoesNotFit) {
  Graph graph;
  const Dimension n{"n", 4};
  const Tensor x = graph.input("x", {n}), ids = graph.input("ids", {n}, DType::kInt32);
  const Window w = window_over(n, {.size = 2, .padding = Padding::of(2, 0)});
  EXPECT_THAT(failure([&] { window_max(x, {w}); }), HasSubstr("window 0 along `n` reads only padding"));
  EXPECT_THAT(failure([&] { window_mean(x, {w}); }), HasSubstr("window 0 along `n` reads only padding"));
  EXPECT_THAT(failure([&] { window_sum(ids, {w}); }), HasSubstr("not defined for int32"));
  EXPECT_THAT(failure([&] {
                window_sum(graph.input("z", {{"n", 5}}), {w});
              }),
              HasSubstr("5 entries of `n`, the windows 4"));
}

}  // namespace
}  // namespace mtf::testing
