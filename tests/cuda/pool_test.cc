#include "engine/ops/pool.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "engine/graph/gradients.h"
#include "tests/cuda/kernel_comparison.h"
#include "tests/cuda/run_on.h"
#include "tests/support/budget.h"
#include "tests/support/random_convolution.h"

namespace mtf::testing {
namespace {

struct RandomPool {
  Shape entries, windows_shape;
  std::vector<Window> windows;
};

/// Pooling along some of up to five dimensions, in any order. With `reads`, all windows read an entry.
RandomPool random_pool(std::mt19937& random, int64_t parts, bool reads) {
  RandomPool pool;
  std::vector<Dimension> entries, windows;
  const char* names[] = {"batch", "rows", "cols", "channels", "depth"};
  for (const char* name : names) {
    if (random() % 5 == 0) continue;
    if (random() % 2 && pool.windows.size() < 3) {
      Window w = random_window(random, name, "", false, parts);
      const auto is_empty = [&] {
        for (int64_t i = 0; i < w.windows.size; ++i) {
          int64_t count = 0;
          for (int64_t k = 0; k < w.size; ++k) {
            const int64_t entry = i * w.stride - w.before + k * w.dilation;
            count += entry >= 0 && entry < w.entries.size;
          }
          if (count == 0) return true;
        }
        return false;
      };
      while (reads && is_empty()) w = random_window(random, name, "", false, parts);
      pool.windows.insert(
          pool.windows.begin() + static_cast<std::ptrdiff_t>(random() % (pool.windows.size() + 1)), w);
      entries.push_back({name, w.entries.size});
      windows.push_back({name, w.windows.size});
    } else {
      const Dimension d{name, random() % 2 ? 8 * parts : parts * static_cast<int64_t>(1 + random() % 3)};
      entries.push_back(d);
      windows.push_back(d);
    }
  }
  pool.entries = Shape(entries);
  pool.windows_shape = Shape(windows);
  return pool;
}

std::string text(const RandomPool& pool) { return pool.entries.to_string() + " " + to_string(pool.windows); }

double tolerance_for(DType dtype) { return dtype == DType::kFloat64 ? 1e-14 : 1e-6; }

TEST(CudaPool, SumsOfRandomGeometries) {
  std::mt19937 random(31);
  for (int i = 0; i < tries(150); ++i) {
    const RandomPool pool = random_pool(random, 1, false);
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat64}) {
      SCOPED_TRACE(fmt::format("{}: {} {}", i, name_of(dtype), text(pool)));
      Graph graph;
      for (const Tensor& y : {window_sum(graph.input("x", pool.entries, dtype), pool.windows, 0.25),
                              spread(graph.input("y", pool.windows_shape, dtype), pool.windows, 0.5)}) {
        KernelComparison comparison(y);
        comparison.tolerance = tolerance_for(dtype);
        comparison.expect_same();
      }
    }
    if (HasFailure()) return;
  }
}

TEST(CudaPool, MaximaOfRandomGeometries) {
  std::mt19937 random(37);
  for (int i = 0; i < tries(150); ++i) {
    const RandomPool pool = random_pool(random, 1, true);
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat64}) {
      SCOPED_TRACE(fmt::format("{}: {} {}", i, name_of(dtype), text(pool)));
      Graph graph;
      const Tensor x = graph.input("x", pool.entries, dtype);
      const Tensor y = window_max(x, pool.windows);
      // Many ties, and the numbers that have no order.
      Values values = random_whole_values(pool.entries.size(), -1, 3, static_cast<uint32_t>(i));
      for (double& value : values) {
        const auto kind = random() % 40;
        if (kind == 0) value = std::numeric_limits<double>::quiet_NaN();
        if (kind == 1) value = std::numeric_limits<double>::infinity();
        if (kind <= 3 && kind > 1) value = -std::numeric_limits<double>::infinity();
        if (kind == 4) value = -0.0;
      }
      KernelComparison comparison(y);
      comparison.inputs[0].values = values;
      comparison.expect_same();

      int64_t places = 1;
      for (const Window& w : pool.windows) places *= w.size;
      const Tensor dx = gradients({y}, {x}, {graph.input("dy", y.shape(), dtype)})[0];
      KernelComparison gradient(dx);
      gradient.inputs[1].values = random_whole_values(y.shape().size(), 0, places, static_cast<uint32_t>(i));
      gradient.tolerance = tolerance_for(dtype);
      gradient.expect_same();
    }
    if (HasFailure()) return;
  }
}

/// More elements than the largest grid has threads.
TEST(CudaPool, OfLargeTensors) {
  const Dimension length{"length", (1 << 22) + 100};
  Graph graph;
  KernelComparison comparison(window_sum(graph.input("x", {length}), {window_over(length, {.size = 2})}));
  comparison.tolerance = 1e-6;
  comparison.expect_same();
}

TEST(CudaPool, OfBlocks) {
  std::mt19937 random(41);
  const std::pair<const char*, const char*> cases[] = {
      {"a:2", "rows:a"}, {"a:4", "rows:a"}, {"a:2;b:2", "rows:a;cols:b"}, {"a:4", "channels:a"}};
  for (int i = 0; i < tries(40); ++i) {
    const auto& [mesh, rules] = cases[static_cast<size_t>(i) % std::size(cases)];
    const RandomPool pool = random_pool(random, std::string_view(mesh).starts_with("a:4") ? 4 : 2, true);
    SCOPED_TRACE(fmt::format("{}: {} on {} by {}", i, text(pool), mesh, rules));
    Graph graph;
    const Tensor x = graph.input("x", pool.entries), dy = graph.input("dy", pool.windows_shape);
    const Tensor maxima = window_max(x, pool.windows), means = window_mean(x, pool.windows);
    graph.set_output("max", maxima);
    graph.set_output("mean", means);
    graph.set_output("spread", spread(dy, pool.windows));
    graph.set_output("dx of max", gradients({maxima}, {x}, {dy})[0]);
    graph.set_output("dx of mean", gradients({means}, {x}, {dy})[0]);
    const std::map<std::string, Values> feeds{{"x", random_whole_values(pool.entries.size(), -2, 4, 1)},
                                              {"dy", random_normal_values(pool.windows_shape.size(), 2)}};
    const Program program = partition(graph, layouts(mesh, rules));
    const Results expected = run_on(*make_cpu_backend(), program, feeds),
                  actual = run_on(cuda_device(), program, feeds);
    for (const auto& [name, tensor] : expected)
      expect_same_values(name, actual.at(name).bytes, tensor.bytes, tensor.dtype, 1e-5);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace mtf::testing
