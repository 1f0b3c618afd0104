#include "engine/ops/convolution.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "engine/graph/gradients.h"
#include "engine/graph/structural.h"
#include "engine/ops/optimizer_updates.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"
#include "tests/cuda/kernel_comparison.h"
#include "tests/cuda/run_on.h"
#include "tests/support/budget.h"
#include "tests/support/random_convolution.h"

namespace mtf::testing {
namespace {

/// The most products that are summed for an entry of the result.
double products_of(const Convolution& operation) {
  double products = 1;
  const Shape& result = operation.outputs()[0].shape;
  for (const Dimension& d : operation.joint_shape()) {
    if (!result.contains(d.name)) products *= static_cast<double>(d.size);
  }
  for (const Window& w : operation.windows)
    products *= static_cast<double>(operation.result == Convolution::kFilter ? w.windows.size : w.size);
  return products;
}

void expect_same_convolution(const Operation& operation) {
  const auto& convolution = static_cast<const Convolution&>(operation);
  KernelComparison comparison(operation.output());
  const bool wide = operation.inputs()[0].dtype() == DType::kFloat64;
  comparison.tolerance = (wide ? 1e-15 : 1e-6) * (10 + std::sqrt(products_of(convolution)));
  comparison.expect_same();
}

/// Compares the convolution and its gradients in all types, with wide sums of bfloat16.
void expect_same_convolution(const RandomConvolution& g) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat64}) {
    SCOPED_TRACE(fmt::format("{} {}", name_of(dtype), g.to_string()));
    const auto built = build_convolution(g, 1, dtype);
    std::vector<const Operation*> operations;
    for (const auto& operation : built->graph.root()) {
      if (dynamic_cast<const Convolution*>(operation.get())) operations.push_back(operation.get());
    }
    ASSERT_EQ(operations.size(), 3u);
    for (const Operation* operation : operations) {
      expect_same_convolution(*operation);
      if (dtype == DType::kBFloat16) expect_same_convolution(operation->wide_sum().operation());
    }
  }
}

TEST(CudaConvolution, OfRandomGeometries) {
  std::mt19937 random(17);
  for (int i = 0; i < tries(150); ++i) {
    SCOPED_TRACE(i);
    expect_same_convolution(random_convolution(random, 1));
    if (HasFailure()) return;
  }
}

struct Along {
  Dimension dimension;
  WindowOptions options;
};
RandomConvolution convolution_over(const std::vector<Along>& along, const Shape& entries, const Shape& filter,
                                   const Shape& groups = {}) {
  RandomConvolution g{entries, filter, groups, {}, false};
  for (const Along& a : along) g.windows.push_back(window_over(a.dimension, a.options));
  return g;
}

const Dimension kImages{"batch", 3}, kOddRows{"rows", 13}, kEvenCols{"cols", 10};

TEST(CudaConvolution, OfChannelsInEveryPlace) {
  const Dimension in{"in", 16}, out{"out", 24}, group{"group", 4};
  const std::vector<Along> windows{{kOddRows, {.filter = "kr", .size = 3, .stride = 2}},
                                   {kEvenCols, {.filter = "kc", .size = 3}}};
  const Dimension kr{"kr", 3}, kc{"kc", 3};
  expect_same_convolution(convolution_over(windows, {kImages, kOddRows, kEvenCols, in}, {kr, kc, in, out}));
  expect_same_convolution(convolution_over(windows, {kImages, in, kOddRows, kEvenCols}, {out, in, kr, kc}));
  expect_same_convolution(convolution_over(windows, {in, kOddRows, kEvenCols, kImages}, {in, kr, kc, out}));
  expect_same_convolution(convolution_over(windows, {kOddRows, kImages, kEvenCols, in}, {kc, in, kr, out}));
  expect_same_convolution(convolution_over(windows, {kImages, kOddRows, kEvenCols, group, in},
                                           {kr, kc, group, in, out}, {group}));
  expect_same_convolution(convolution_over(windows, {kImages, group, in, kOddRows, kEvenCols},
                                           {group, out, in, kr, kc}, {group}));
  expect_same_convolution(convolution_over(windows, {kImages, kOddRows, kEvenCols, in, group},
                                           {kr, kc, in, out, group}, {group}));
}

/// Rows of patches that are no multiple of a pack, as in the first layer of a network, and single channels.
TEST(CudaConvolution, OfFewChannels) {
  const Dimension in{"in", 3}, out{"out", 20}, kr{"kr", 7}, kc{"kc", 5};
  const std::vector<Along> windows{{kOddRows, {.filter = "kr", .size = 7, .stride = 2}},
                                   {kEvenCols, {.filter = "kc", .size = 5, .dilation = 2}}};
  expect_same_convolution(convolution_over(windows, {kImages, kOddRows, kEvenCols, in}, {kr, kc, in, out}));
  expect_same_convolution(convolution_over(windows, {kImages, kOddRows, kEvenCols}, {kr, kc, out}));
  expect_same_convolution(convolution_over(windows, {kImages, kOddRows, kEvenCols, in}, {kr, kc, in}));
  expect_same_convolution(convolution_over(windows, {kImages, kOddRows, kEvenCols}, {kr, kc}));
  expect_same_convolution(convolution_over(windows, {kOddRows, kEvenCols}, {kr, kc, {"one", 1}}));
}

TEST(CudaConvolution, OfOneChannelInEachGroup) {
  const Dimension kr{"kr", 3}, kc{"kc", 5};
  const std::vector<Along> windows{{kOddRows, {.filter = "kr", .size = 3, .stride = 2}},
                                   {kEvenCols, {.filter = "kc", .size = 5, .stride = 3, .dilation = 2}}};
  for (const int64_t channels : {5, 32}) {
    const Dimension c{"channels", channels};
    expect_same_convolution(convolution_over(windows, {kImages, kOddRows, kEvenCols, c}, {kr, kc, c}, {c}));
    expect_same_convolution(convolution_over(windows, {kImages, c, kOddRows, kEvenCols}, {c, kr, kc}, {c}));
    expect_same_convolution(
        convolution_over(windows, {kImages, kOddRows, kEvenCols, c}, {kr, kc, c, {"multiplier", 2}}, {c}));
  }
  // Long sums of the filter, in several chunks.
  const Dimension length{"length", 700}, c{"channels", 6};
  expect_same_convolution(convolution_over({{length, {.filter = "k", .size = 4}}}, {{"batch", 9}, length, c},
                                           {{"k", 4}, c}, {c}));
}

/// Windows that are tiles of the entries: the tensors are the matrices.
TEST(CudaConvolution, OfTiles) {
  const Dimension even{"rows", 12}, in{"in", 8}, out{"out", 12};
  for (const int64_t size : {1, 2, 4}) {
    const std::vector<Along> windows{{even, {.filter = "kr", .size = size, .stride = size}},
                                     {kEvenCols, {.filter = "kc", .size = 1, .dilation = 3}}};
    const Dimension kr{"kr", size}, kc{"kc", 1};
    expect_same_convolution(convolution_over(windows, {kImages, even, kEvenCols, in}, {kr, kc, in, out}));
    expect_same_convolution(convolution_over(windows, {kImages, in, even, kEvenCols}, {out, in, kr, kc}));
  }
  // Tiles with padding, and with entries between and after them.
  const Dimension kr{"kr", 2};
  for (const WindowOptions& options : std::initializer_list<WindowOptions>{
           {.filter = "kr", .size = 2, .stride = 2, .padding = Padding::of(1, 1)},
           {.filter = "kr", .size = 2, .stride = 2, .padding = Padding::of(-1, 1)},
           {.filter = "kr", .size = 2, .stride = 3},
           {.filter = "kr", .size = 2, .stride = 5, .padding = Padding::valid()}})
    expect_same_convolution(convolution_over({{kOddRows, options}}, {kImages, kOddRows, in}, {kr, in, out}));
}

/// Windows that read padding alone, and entries that no window reads.
TEST(CudaConvolution, OfEmptyWindows) {
  const Dimension in{"in", 4}, out{"out", 6}, k{"k", 2};
  for (const WindowOptions& options : std::initializer_list<WindowOptions>{
           {.filter = "k", .size = 2, .padding = Padding::of(5, 6)},
           {.filter = "k", .size = 2, .stride = 4, .dilation = 3, .padding = Padding::of(9, 9)},
           {.filter = "k", .size = 2, .stride = 4, .dilation = 2, .padding = Padding::of(-3, -2)}}) {
    expect_same_convolution(convolution_over({{kOddRows, options}}, {kImages, kOddRows, in}, {k, in, out}));
    expect_same_convolution(convolution_over({{kOddRows, options}}, {kImages, kOddRows, in}, {k, in}, {in}));
  }
}

TEST(CudaConvolution, OfManyDimensions) {
  const Dimension a{"a", 4}, b{"b", 5}, c{"c", 3}, d{"d", 6}, in{"in", 4}, out{"out", 3};
  const std::vector<Along> windows{{a, {.filter = "ka", .size = 2}},
                                   {b, {.filter = "kb", .size = 3, .stride = 2}},
                                   {c, {.filter = "kc", .size = 2, .dilation = 2}},
                                   {d, {.filter = "kd", .size = 3, .padding = Padding::valid()}}};
  const Shape filter{{"kd", 3}, {"ka", 2}, in, {"kb", 3}, {"kc", 2}, out};
  expect_same_convolution(convolution_over(windows, {{"batch", 2}, a, b, c, d, in}, filter));
  expect_same_convolution(convolution_over(windows, {{"x", 2}, d, {"y", 2}, c, {"z", 2}, b, in, a}, filter));
  // No dimension has windows.
  expect_same_convolution(convolution_over({}, {kImages, kOddRows, in}, {in, out}));
}

TEST(CudaConvolution, OfLargeChannels) {
  const Dimension in{"in", 200}, out{"out", 333}, small{"rows", 5};
  expect_same_convolution(
      convolution_over({{small, {.filter = "k", .size = 3}}}, {kImages, small, in}, {{"k", 3}, in, out}));
}

/// Patches of several parts: of images, and of rows of one image.
TEST(CudaConvolution, OfMorePatchesThanScratchHolds) {
  const Dimension in{"in", 16}, out{"out", 2}, kr{"kr", 5}, kc{"kc", 5};
  struct Case {
    int64_t images, size;
    bool channels_last;
    DType dtype;
  };
  for (const auto& [images, size, channels_last, dtype] :
       {Case{14, 32, true, DType::kFloat64}, Case{1, 114, true, DType::kFloat64},
        Case{1, 115, false, DType::kFloat64}, Case{3, 131, true, DType::kBFloat16}}) {
    SCOPED_TRACE(fmt::format("{} images of {}", images, size));
    const Dimension some{"batch", images}, high{"rows", size}, wide{"cols", size};
    const Shape entries = channels_last ? Shape{some, high, wide, in} : Shape{some, in, high, wide};
    const Shape filter = channels_last ? Shape{kr, kc, in, out} : Shape{out, in, kr, kc};
    const RandomConvolution g = convolution_over(
        {{high, {.filter = "kr", .size = 5}}, {wide, {.filter = "kc", .size = 5}}}, entries, filter);
    const auto built = build_convolution(g, 1, dtype);
    for (const auto& operation : built->graph.root()) {
      if (operation->name() == "convolution" || operation->name() == "convolution_filter_gradient")
        expect_same_convolution(*operation);
    }
  }
}

TEST(CudaConvolution, RoundsToTf32WhereTheGraphAllowsIt) {
  Graph graph;
  graph.set_matmul_precision(MatmulPrecision::kTf32);
  const Dimension in{"in", 16};
  const Tensor x = graph.input("x", {kImages, kOddRows, in}),
               f = graph.input("f", {{"k", 3}, in, {"out", 8}});
  const Tensor y = convolution(x, f, {window_over(kOddRows, {.filter = "k", .size = 3})});
  EXPECT_THAT(y.operation().attributes(), ::testing::HasSubstr("tf32"));
  KernelComparison comparison(y);
  comparison.tolerance = 1e-2;
  comparison.expect_same();
}

/// The results of the processor and of the device for programs in which layouts split dimensions with windows, so that
/// kernels get blocks with margins.
void expect_same_programs(const RandomConvolution& g, uint32_t seed, DType dtype, const std::string& mesh,
                          const std::string& rules) {
  SCOPED_TRACE(fmt::format("{} {} on {} by {}", name_of(dtype), g.to_string(), mesh, rules));
  const auto built = build_convolution(g, seed, dtype);
  const Program program = partition(built->graph, layouts(mesh, rules));
  const Results expected = run_on(*make_cpu_backend(), program, built->feeds),
                actual = run_on(cuda_device(), program, built->feeds);
  // Sums over positions are of rounded numbers.
  const double tolerance = dtype == DType::kFloat64 ? 1e-12 : dtype == DType::kBFloat16 ? 0.1 : 1e-4;
  for (const auto& [name, tensor] : expected)
    expect_same_values(name, actual.at(name).bytes, tensor.bytes, tensor.dtype, tolerance);
}

TEST(CudaConvolution, OfBlocks) {
  std::mt19937 random(23);
  struct Case {
    const char *mesh, *rules;
    int64_t parts;
  };
  const Case cases[] = {{"a:2", "rows:a", 2},
                        {"a:4", "rows:a", 4},
                        {"a:2;b:2", "rows:a;cols:b", 2},
                        {"a:4;b:2", "cols:a;rows:b", 4},
                        {"a:2;b:2", "rows:a;in:b", 2},
                        {"a:2", "group:a", 2},
                        {"a:3;b:2", "rows:a;batch:b", 6}};
  for (int i = 0; i < tries(60); ++i) {
    SCOPED_TRACE(i);
    const auto& [mesh, rules, parts] = cases[static_cast<size_t>(i) % std::size(cases)];
    const DType dtype =
        std::array{DType::kFloat64, DType::kFloat32, DType::kBFloat16}[static_cast<size_t>(i / 2) % 3];
    expect_same_programs(random_convolution(random, parts), static_cast<uint32_t>(i), dtype, mesh, rules);
    if (HasFailure()) return;
  }
}

/// Margins wider than a block, strides that blocks are no multiples of, and blocks without an entry that windows read.
TEST(CudaConvolution, OfUnevenBlocks) {
  const Dimension in{"in", 2}, out{"out", 3};
  for (const auto& [size, stride, dilation, before, after] : {std::tuple{5, 1, 1, 2, 2},
                                                              {3, 2, 1, 1, 0},
                                                              {2, 3, 2, 1, 1},
                                                              {7, 2, 1, 3, 2},
                                                              {2, 4, 1, -4, 8},
                                                              {3, 3, 2, 6, 6}}) {
    for (const int64_t n : {16, 24, 36}) {
      const WindowOptions options{.filter = "k",
                                  .size = size,
                                  .stride = stride,
                                  .dilation = dilation,
                                  .padding = Padding::of(before, after)};
      for (const bool transposed : {false, true}) {
        const Dimension d{"rows", n};
        const Window w = transposed ? window_onto(d, options) : window_over(d, options);
        for (const int64_t parts : {2, 4}) {
          if (w.entries.size % parts != 0 || w.windows.size % parts != 0) continue;
          const RandomConvolution g{{{"batch", 2}, d, in}, {{"k", size}, in, out}, {}, {w}, transposed};
          expect_same_programs(g, 1, DType::kFloat64, fmt::format("a:{}", parts), "rows:a");
          const RandomConvolution depthwise{{{"batch", 2}, d, in}, {{"k", size}, in}, {in}, {w}, transposed};
          expect_same_programs(depthwise, 1, DType::kFloat64, fmt::format("a:{}", parts), "rows:a");
        }
      }
    }
  }
}

/// Steps of gradient descent over microbatches, which a device records and replays, with an update that a guard may skip.
TEST(CudaConvolution, TrainsOverMicrobatches) {
  const Dimension images{"batch", 4}, high{"rows", 8}, wide{"cols", 8}, in{"in", 3}, out{"out", 4};
  Graph graph;
  const Tensor x = graph.input("x", {images, high, wide, in});
  const Variable& filter =
      graph.variable("filter", {{"kr", 3}, {"kc", 3}, in, out}, DType::kFloat32, Initializer::normal(0.5));
  const Tensor f = graph.read(filter);
  const Tensors sums = repeat(graph, 2, {}, {"batch", 2}, [&](const Tensors&) {
    const Tensor y = convolution(microbatch_slice(x), f,
                                 {window_over(high, {.filter = "kr", .size = 3, .stride = 2}),
                                  window_over(wide, {.filter = "kc", .size = 3})});
    return LoopResult{{}, gradients({reduce_mean(square(y), Shape{})}, {f}), {}};
  });
  graph.assign(filter, sgd_update(f, sums[0], graph.constant(0.1)));
  std::map<std::string, Values> feeds{{"x", random_normal_values(4 * 8 * 8 * 3, 1)}};
  for (const auto& [mesh, rules] :
       {std::pair("a:1", ""), std::pair("a:2", "rows:a"), std::pair("a:2;b:2", "cols:a;out:b")}) {
    SCOPED_TRACE(rules);
    const Results expected = run_on(*make_cpu_backend(), partition(graph, layouts(mesh, rules)), feeds);
    const Results actual =
        run_on(cuda_device(),
               partition(graph, layouts(mesh, rules),
                         {.fuse_epilogues = true, .fuse_elementwise = true, .group_variables = true}),
               feeds);
    for (const auto& [name, tensor] : expected)
      expect_same_values(name, actual.at(name).bytes, tensor.bytes, tensor.dtype, 1e-5);
  }
}

}  // namespace
}  // namespace mtf::testing
