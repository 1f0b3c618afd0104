#include "engine/ops/convolution.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "engine/graph/gradients.h"
#include "engine/ops/binary.h"
#include "engine/ops/einsum.h"
#include "engine/ops/halo.h"
#include "engine/ops/reduce.h"
#include "engine/ops/stack.h"
#include "engine/spmd/program_facts.h"
#include "tests/support/budget.h"
#include "tests/support/failure.h"
#include "tests/support/golden.h"
#include "tests/support/random_convolution.h"
#include "tests/support/run_on_mesh.h"
#include "tests/support/test_backend.h"

namespace mtf::testing {
namespace {

using ::testing::HasSubstr;

/// Calls visit(index of each dimension) for all combinations.
void for_each(const Shape& all, const std::function<void(const std::map<std::string, int64_t>&)>& visit) {
  std::map<std::string, int64_t> index;
  for (int64_t i = 0; i < all.size(); ++i) {
    int64_t rest = i;
    for (int axis = all.rank(); axis-- > 0; rest /= all[axis].size)
      index[all[axis].name] = rest % all[axis].size;
    visit(index);
  }
}

int64_t offset(const Shape& shape, const std::map<std::string, int64_t>& index) {
  int64_t at = 0;
  for (const Dimension& d : shape) at = at * d.size + index.at(d.name);
  return at;
}

/// The outputs of build_convolution() by the definition.
std::map<std::string, Values> convolution_by_definition(const RandomConvolution& g,
                                                        const std::map<std::string, Values>& feeds,
                                                        const Shape& result) {
  const Values &x = feeds.at("x"), &f = feeds.at("f"), &dy = feeds.at("dy");
  std::map<std::string, Values> out{
      {"y", Values(dy.size())}, {"dx", Values(x.size())}, {"df", Values(f.size())}};
  // Over all dimensions, those of windows with the number of windows.
  const Shape &windows = g.transposed ? g.entries : result, &entries = g.transposed ? result : g.entries;
  for_each(windows + g.filter, [&](std::map<std::string, int64_t> index) {
    const int64_t at_window = offset(windows, index), at_filter = offset(g.filter, index);
    for (const Window& w : g.windows) {
      int64_t& i = index[w.dimension];
      i = i * w.stride - w.before + index[w.filter] * w.dilation;
      if (i < 0 || i >= w.entries.size) return;
    }
    const int64_t at_entry = offset(entries, index);
    const int64_t from = g.transposed ? at_window : at_entry, to = g.transposed ? at_entry : at_window;
    out["y"][to] += x[from] * f[at_filter];
    out["dx"][from] += dy[to] * f[at_filter];
    out["df"][at_filter] += dy[to] * x[from];
  });
  return out;
}

void expect_the_sum_of_the_definition(const RandomConvolution& g, uint32_t seed) {
  const auto built = build_convolution(g, seed);
  Shape result;
  for (const auto& [name, tensor] : built->graph.outputs()) {
    if (name == "y") result = tensor.shape();
  }
  const auto expected = convolution_by_definition(g, built->feeds, result);
  const MeshRun run = run_on_mesh(built->graph, Layouts::single(), built->feeds);
  for (const auto& [name, values] : expected)
    expect_close(fmt::format("{}: {} of {}", seed, name, g.to_string()), run.outputs.at(name), values, 1e-6,
                 3e-6);
}

TEST(Convolution, IsTheSumOfItsDefinition) {
  std::mt19937 random(3);
  for (int i = 0; i < tries(1000); ++i) {
    expect_the_sum_of_the_definition(random_convolution(random, 1), static_cast<uint32_t>(i));
    if (HasFailure()) return;
  }
}

/// The gradient of the filter is made in two parts, of which the second has one channel, and `depth` lies behind the
/// channels with one entry, so that both are 1 apart.
TEST(Convolution, IsTheSumOfItsDefinitionWhereAPartHasOneChannel) {
  RandomConvolution g;
  g.entries = {{"rows", 5}, {"cols", 1}, {"in", 3}, {"depth", 1}};
  g.filter = {{"k0", 5}, {"k1", 4}, {"k2", 5}, {"out", 3}, {"in", 3}};
  const char* names[] = {"rows", "cols", "depth"};
  for (int i = 0; i < 3; ++i) {
    const std::string filter = fmt::format("k{}", i);
    g.windows.push_back(window_over(g.entries.dimension(names[i]),
                                    {.filter = filter, .size = g.filter.dimension(filter).size}));
  }
  expect_the_sum_of_the_definition(g, 1);
}

TEST(Convolution, IsTheSumOfItsDefinitionForImagesOfFewChannels) {
  for (const auto& [channels, window] : {std::pair{1, 9}, {3, 3}})
    expect_the_sum_of_the_definition(convolution_of_few_channels(channels, window), 1);
}

/// Whether a layout that splits `dimensions` leaves no sum of this output to the mesh.
bool keeps_bits(const BuiltConvolution& built, const std::string& output,
                const std::vector<std::string>& dimensions, const RandomConvolution& g) {
  for (const auto& [name, tensor] : built.graph.outputs()) {
    if (name != output) continue;
    for (const std::string& d : dimensions) {
      const bool used = g.entries.contains(d) || g.filter.contains(d);
      if (used && !tensor.shape().contains(d)) return false;
    }
  }
  return true;
}

using Generator = RandomConvolution (*)(std::mt19937&, int64_t parts);

/// Compares random layouts of random convolutions with one position.
void expect_the_same_wherever_it_is_split(Generator generate, int count, uint32_t seed) {
  // The order of a device's sums depends on the shapes of matrices.
  const bool exact = test_backend()->is_host();
  std::mt19937 random(seed);
  int run = 0;
  for (int i = 0; run < count; ++i) {
    const EvenMesh mesh = random_mesh(random);
    const RandomConvolution g = generate(random, mesh.parts);
    const auto [names, rules] = random_split(random, g, mesh);
    if (names.empty()) continue;
    ++run;
    const auto built = build_convolution(g, static_cast<uint32_t>(i));
    const MeshRun one = run_on_mesh(built->graph, Layouts::single(), built->feeds);
    const MeshRun split = run_on_mesh(built->graph, layouts(mesh.text, rules), built->feeds);
    for (const auto& [name, values] : one.outputs) {
      const std::string what =
          fmt::format("{}: {} of {} on {} by {}", i, name, g.to_string(), mesh.text, rules);
      if (exact && keeps_bits(*built, name, names, g)) {
        ASSERT_EQ(split.outputs.at(name), values) << what;
      }
      const double largest =
          std::abs(*std::ranges::max_element(values, {}, [](double v) { return std::abs(v); }));
      expect_close(what, split.outputs.at(name), values, 1e-5, 1e-5 * std::max(1.0, largest));
    }
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(Convolution, IsTheSameWhereverItIsSplit) {
  expect_the_same_wherever_it_is_split(random_convolution, tries(1500), 5);
}

TEST(Convolution, InTilesIsTheSameWhereverItIsSplit) {
  expect_the_same_wherever_it_is_split(random_convolution_in_tiles, tries(150), 6);
}

TEST(Convolution, InTilesIsThatOfFloat64) {
  std::mt19937 random(7);
  for (int i = 0; i < tries(60); ++i) {
    const RandomConvolution g = random_convolution_in_tiles(random, 1);
    const auto built = build_convolution(g, static_cast<uint32_t>(i));
    const auto wide = build_convolution(g, static_cast<uint32_t>(i), DType::kFloat64);
    const MeshRun run = run_on_mesh(built->graph, Layouts::single(), built->feeds);
    const MeshRun expected = run_on_mesh(wide->graph, Layouts::single(), wide->feeds);
    for (const auto& [name, values] : expected.outputs)
      EXPECT_LT(relative_difference(run.outputs.at(name), values), 2e-6)
          << fmt::format("{}: {} of {}", i, name, g.to_string());
    if (HasFailure()) return;
  }
}

/// The exchanges of a convolution along rows, of `size` rows on four positions, and its gradients.
int64_t exchanges(int64_t size) {
  RandomConvolution g;
  g.entries = {{"batch", 2}, {"rows", size}, {"in", 3}};
  g.filter = {{"k", 3}, {"in", 3}, {"out", 5}};
  g.windows = {window_over({"rows", size}, {.filter = "k", .size = 3})};
  const auto built = build_convolution(g, 1);
  const ProgramFacts facts = program_facts(partition(built->graph, layouts("a:4", "rows:a")));
  return std::ranges::count(facts.collectives, "exchange", &CollectiveFact::kind);
}

TEST(Convolution, ExchangesMarginsOnceUnlessTheyAreLarge) {
  EXPECT_EQ(exchanges(16), 4);  // of x and of dy, from both sides
  EXPECT_EQ(exchanges(8), 6);   // those of x again for the gradient of the filter
}

/// Windows over dimensions of x, one for each of `dimensions`: name, name of the filter's dimension, stride.
struct Along {
  const char *dimension, *filter;
  int64_t stride = 1;
};
std::vector<Window> windows_of(const Tensor& x, const Tensor& kernel, const std::vector<Along>& dimensions,
                               const Padding& padding) {
  std::vector<Window> windows;
  for (const Along& along : dimensions) {
    windows.push_back(window_over(x.shape().dimension(along.dimension),
                                  {.filter = along.filter,
                                   .size = kernel.shape().dimension(along.filter).size,
                                   .stride = along.stride,
                                   .padding = padding}));
  }
  return windows;
}

TEST(Convolution, HasTheRecordedValuesInTwoDimensions) {
  GoldenCase golden(MTF_SOURCE_DIR "/tests/golden/01_core_conv2d");
  Graph graph;
  const Tensor x = golden.input(graph, "x");
  std::map<std::string, Tensor> outputs;
  const auto add = [&](const std::string& name, int64_t row_stride, int64_t col_stride,
                       const Padding& padding) {
    const Tensor kernel = golden.weight(graph, name + "/kernel");
    outputs[name] = convolution(
        x, kernel, windows_of(x, kernel, {{"h", "fh", row_stride}, {"w", "fw", col_stride}}, padding));
  };
  add("same_s1", 1, 1, Padding::same());
  add("same_s2", 2, 2, Padding::same());
  add("valid_s1", 1, 1, Padding::valid());
  add("valid_s2", 2, 2, Padding::valid());
  add("rect_same", 1, 1, Padding::same());
  add("even_same", 1, 1, Padding::same());
  add("one_by_one", 1, 1, Padding::same());
  add("mixed_stride", 2, 1, Padding::same());
  golden.expect(graph, outputs);
}

TEST(Convolution, HasTheRecordedValuesInThreeDimensions) {
  GoldenCase golden(MTF_SOURCE_DIR "/tests/golden/01_core_conv3d");
  Graph graph;
  const Tensor x = golden.input(graph, "x");
  std::map<std::string, Tensor> outputs;
  const auto add = [&](const std::string& name, int64_t depth_stride, int64_t stride,
                       const Padding& padding) {
    const Tensor kernel = golden.weight(graph, name + "/kernel");
    outputs[name] = convolution(
        x, kernel,
        windows_of(x, kernel, {{"dd", "fd", depth_stride}, {"h", "fh", stride}, {"w", "fw", stride}},
                   padding));
  };
  add("same_s1", 1, 1, Padding::same());
  add("valid_s1", 1, 1, Padding::valid());
  add("same_s2", 2, 2, Padding::same());
  add("aniso", 1, 2, Padding::same());
  golden.expect(graph, outputs);
}

TEST(Convolution, HasTheRecordedValuesInOneDimension) {
  GoldenCase golden(MTF_SOURCE_DIR "/tests/golden/01_core_conv1d");
  Graph graph;
  const Tensor x = golden.input(graph, "x");
  const Tensor kernel = reduce_sum(golden.weight(graph, "c1/kernel"), Dimension{"fh", 1});
  // separable_conv1d: a kernel for each relative position, a bias of the first one, then a dense layer.
  Tensors kernels;
  for (int i = 0; i < 3; ++i) {
    const std::string dense = fmt::format("sep/depthwise_conv_hack/depthwise_dense_{}", i);
    kernels.push_back(golden.weight(graph, dense + "/kernel"));
  }
  const Tensor filter = stack(kernels, "k"),
               bias = golden.weight(graph, "sep/depthwise_conv_hack/depthwise_dense_0/bias");
  const Tensor depthwise =
      add(convolution(x, filter, windows_of(x, filter, {{"length", "k"}}, Padding::same()),
                      Shape{x.shape().dimension("c")}),
          bias);
  const Tensor pointwise = einsum({depthwise, golden.weight(graph, "sep/pointwise_dense/kernel")});
  golden.expect(
      graph, {{"conv1d", convolution(x, kernel, windows_of(x, kernel, {{"length", "fw"}}, Padding::same()))},
              {"separable", add(pointwise, golden.weight(graph, "sep/pointwise_dense/bias"))}});
}

TEST(Convolution, HasTheRecordedValuesTransposed) {
  GoldenCase golden(MTF_SOURCE_DIR "/tests/golden/01_core_conv_transpose");
  Graph graph;
  const Tensor x2 = golden.input(graph, "x2"), x3 = golden.input(graph, "x3");
  const auto transposed = [&](const Tensor& x, const std::string& name, const std::vector<Along>& dimensions,
                              const Padding& padding) {
    const Tensor kernel = golden.weight(graph, name + "/kernel");
    std::vector<Window> windows;
    for (const Along& along : dimensions) {
      windows.push_back(window_onto(x.shape().dimension(along.dimension),
                                    {.filter = along.filter, .size = 2, .stride = 2, .padding = padding}));
    }
    return transposed_convolution(x, kernel, windows);
  };
  const std::vector<Along> two{{"h", "fh"}, {"w", "fw"}}, three{{"dd", "fd"}, {"h", "fh"}, {"w", "fw"}};
  golden.expect(graph, {{"t2_same", transposed(x2, "t2s", two, Padding::same())},
                        {"t2_valid", transposed(x2, "t2v", two, Padding::valid())},
                        {"t3_same", transposed(x3, "t3s", three, Padding::same())},
                        {"t3_valid", transposed(x3, "t3v", three, Padding::valid())}});
}

/// Mesh TensorFlow's way: the model has dimensions of blocks, exchanges halos and convolves without padding.
TEST(Convolution, HasTheRecordedValuesInBlocks) {
  GoldenCase golden(MTF_SOURCE_DIR "/tests/golden/01_core_conv2d_blocks");
  Graph graph;
  const Tensor x = golden.input(graph, "x");
  const std::vector<Along> both{{"h", "fh"}, {"w", "fw"}};
  const auto in_blocks = [&](const std::string& name) {
    const Tensor kernel = golden.weight(graph, name + "/kernel");
    const int64_t halo = kernel.shape().dimension("fh").size / 2;
    const Tensor extended = halo_exchange(halo_exchange(x, "hb", "h", halo), "wb", "w", halo);
    return convolution(extended, kernel, windows_of(extended, kernel, both, Padding::valid()));
  };
  const Tensor kernel = golden.weight(graph, "k5/kernel"), extended = halo_exchange(x, "hb", "h", 2);
  std::vector<Window> windows = windows_of(extended, kernel, {both[0]}, Padding::valid());
  windows.push_back(windows_of(x, kernel, {both[1]}, Padding::same())[0]);
  golden.expect(graph, {{"k3", in_blocks("k3")},
                        {"k9", in_blocks("k9")},
                        {"k5_honly", convolution(extended, kernel, windows)}});
}

TEST(Convolution, HasTheRecordedValuesInBlocksOfThreeDimensions) {
  GoldenCase golden(MTF_SOURCE_DIR "/tests/golden/01_core_conv3d_blocks");
  Graph graph;
  const Tensor x = golden.input(graph, "x"), kernel = golden.weight(graph, "k3/kernel");
  const Tensor extended = halo_exchange(halo_exchange(x, "db", "dd", 1), "hb", "h", 1);
  const std::vector<Along> all{{"dd", "fd"}, {"h", "fh"}, {"w", "fw"}};
  std::vector<Window> windows = windows_of(extended, kernel, all, Padding::valid());
  windows[2] = windows_of(x, kernel, all, Padding::same())[2];
  golden.expect(graph, {{"k3", convolution(extended, kernel, windows)}});
}

TEST(Convolution, RejectsWhatDoesNotFit) {
  Graph graph;
  const Dimension rows{"rows", 8}, in{"in", 3};
  const Tensor x = graph.input("x", {rows, in}), f = graph.input("f", {{"k", 3}, in, {"out", 2}});
  const Window w = window_over(rows, {.filter = "k", .size = 3});
  EXPECT_THAT(failure([&] {
                convolution(x, graph.input("a", {{"k", 3}, {"in", 2}}), {w});
              }),
              HasSubstr("`in` has sizes 3 and 2"));
  EXPECT_THAT(failure([&] {
                convolution(x, graph.input("b", {{"k", 4}, in}), {w});
              }),
              HasSubstr("the filter [k=4, in=3] has 4 entries of `k`, the windows 3"));
  EXPECT_THAT(failure([&] { convolution(x, graph.input("c", {in}), {w}); }), HasSubstr("no dimension `k`"));
  EXPECT_THAT(failure([&] {
                convolution(graph.input("d", {{"rows", 7}, in}), f, {w});
              }),
              HasSubstr("7 entries of `rows`"));
  EXPECT_THAT(failure([&] { convolution(x, f, {w}, {{"out", 2}}); }), HasSubstr("group out=2"));
  EXPECT_THAT(failure([&] {
                convolution(x, graph.input("e", {{"k", 3}, in}, DType::kBFloat16), {w});
              }),
              HasSubstr("of float32 with a filter of bfloat16"));
  EXPECT_THAT(failure([&] { window_over(rows, {.size = 9, .padding = Padding::valid()}); }),
              HasSubstr("no window of 9 entries fits into `rows` = 8"));
  EXPECT_THAT(failure([&] { window_over(rows, {.size = 3, .stride = 0}); }),
              HasSubstr("stride 0 along `rows`"));
}

/// 8 rows in 4 slices, and windows that reach over two of them.
TEST(Convolution, ExchangesBordersAlone) {
  Graph graph;
  const Dimension rows{"rows", 8}, cols{"cols", 6}, in{"in", 2};
  const Tensor x = graph.input("x", {rows, cols, in});
  const Tensor f = graph.input("f", {{"k", 3}, in, {"out", 5}});
  graph.set_output("y", convolution(x, f, {window_over(rows, {.filter = "k", .size = 3})}));
  const ProgramFacts facts = program_facts(partition(graph, layouts("a:4", "rows:a")));
  for (const CollectiveFact& fact : facts.collectives) EXPECT_EQ(fact.kind, "exchange");
  EXPECT_EQ(facts.bytes_sent, 1.5 * 6 * 2 * 4);  // a row of 6 x 2 numbers to each neighbour
}

/// Sums of bfloat16 are made and added over the mesh in float32.
TEST(Convolution, SumsBFloat16InFloat32) {
  std::mt19937 random(11);
  for (int i = 0; i < 20; ++i) {
    const RandomConvolution g = random_convolution(random, 2);
    if (!g.entries.contains("in")) continue;
    const auto built = build_convolution(g, 1, DType::kBFloat16);
    const auto exact = build_convolution(g, 1, DType::kFloat64);
    std::map<std::string, Values> rounded = built->feeds;
    for (auto& [name, values] : rounded) {
      for (double& value : values) value = static_cast<float>(BFloat16(static_cast<float>(value)));
    }
    const MeshRun expected = run_on_mesh(exact->graph, Layouts::single(), rounded);
    const MeshRun one = run_on_mesh(built->graph, Layouts::single(), rounded);
    const MeshRun split = run_on_mesh(built->graph, layouts("a:2", "in:a"), rounded);
    for (const auto& [name, values] : expected.outputs) {
      expect_close(name + " of " + g.to_string(), one.outputs.at(name), values, 8e-3, 1e-2);
      expect_close(name + " of " + g.to_string() + " split", split.outputs.at(name), values, 8e-3, 1e-2);
    }
  }
}

}  // namespace
}  // namespace mtf::testing
