#include "engine/ops/int8_product.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "engine/backend/cpu/contractions/int8_gemm.h"
#include "tests/support/amx_emulator.h"
#include "tests/support/run_on_mesh.h"
#include "tests/support/test_backend.h"

namespace mtf::testing {
namespace {

std::mt19937 int8_generator(1);

int64_t random_between(int64_t least, int64_t most) {
  return std::uniform_int_distribution<int64_t>(least, most)(int8_generator);
}

/// Those of this machine, and AMX's where it can be emulated.
std::vector<const Int8Kernels*> all_int8_kernels() {
  std::vector<const Int8Kernels*> kernels = available_int8_kernels();
  if (emulate_amx()) kernels.push_back(amx_int8_kernels());
  return kernels;
}

/// The places of the codes of B.
int64_t code_place(int64_t column, int64_t k, int64_t depth, bool in_panels) {
  if (!in_panels) return column * depth + k;
  return (column / kInt8Columns * depth + k / kInt8Depths * kInt8Depths) * kInt8Columns +
         column % kInt8Columns * kInt8Depths + k % kInt8Depths;
}

/// A product of codes whose memory ends with them, so that a sanitizer detects a read beyond them.
struct CodeMatrices {
  int64_t rows, columns, depth;
  bool in_panels;
  std::vector<int8_t> a;
  std::vector<uint8_t> b;
  std::vector<float> row_scales, column_scales;

  CodeMatrices(int64_t rows, int64_t columns, int64_t depth, bool in_panels)
      : rows(rows), columns(columns), depth(depth), in_panels(in_panels) {
    for (int64_t i = 0; i < rows * depth; ++i) a.push_back(static_cast<int8_t>(random_between(-127, 127)));
    for (int64_t i = 0; i < columns * depth; ++i) b.push_back(static_cast<uint8_t>(random_between(1, 255)));
    for (int64_t i = 0; i < rows; ++i) row_scales.push_back(static_cast<float>(random_between(1, 99)) / 7);
    for (int64_t j = 0; j < columns; ++j)
      column_scales.push_back(static_cast<float>(random_between(1, 99)) / 3);
  }

  std::vector<int32_t> expected() const {
    std::vector<int32_t> sums;
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        int32_t sum = 0;
        for (int64_t k = 0; k < depth; ++k)
          sum += a[i * depth + k] * (b[code_place(j, k, depth, in_panels)] - 128);
        sums.push_back(sum);
      }
    }
    return sums;
  }
  void multiply(Int8Output output, const Int8Kernels& kernels) const {
    output.row_stride = columns;
    std::vector<std::byte> scratch(int8_scratch_bytes(rows, depth, in_panels) + 64);
    void* aligned = scratch.data();
    size_t space = scratch.size();
    std::align(64, space - 64, aligned, space);
    mtf::multiply({rows, columns, depth, a.data(), b.data(), in_panels, output},
                  static_cast<std::byte*>(aligned), kernels);
  }
};

TEST(Int8Gemm, EveryInstructionSetGivesTheExactSums) {
  for (int trial = 0; trial < 120; ++trial) {
    const bool in_panels = trial % 3 != 0;
    const int64_t rows = trial < 30 ? trial + 1 : random_between(1, 40),
                  columns = in_panels ? 16 * random_between(1, 20) : random_between(1, 70),
                  depth = in_panels ? 4 * random_between(1, 80) : random_between(1, 300);
    const CodeMatrices product(rows, columns, depth, in_panels);
    const std::vector<int32_t> expected = product.expected();
    for (const Int8Kernels* kernels : all_int8_kernels()) {
      std::vector<int32_t> sums(expected.size(), -1);
      product.multiply({.sums = sums.data()}, *kernels);
      ASSERT_EQ(sums, expected) << kernels->name << " " << rows << "x" << columns << "x" << depth;
      std::vector<float> values(expected.size(), NAN);
      product.multiply({.values = values.data(),
                        .row_scales = product.row_scales.data(),
                        .column_scales = product.column_scales.data()},
                       *kernels);
      for (size_t i = 0; i < values.size(); ++i) {
        const float by_row = static_cast<float>(expected[i]) * product.row_scales[i / columns];
        ASSERT_EQ(values[i], by_row * product.column_scales[i % columns]) << kernels->name;
      }
    }
  }
}

TEST(Int8Gemm, TheLargestSumsAreExact) {
  CodeMatrices product(3, 32, kMostInt8Products, true);
  for (int8_t& code : product.a) code = -127;
  for (size_t i = 0; i < product.b.size(); ++i) product.b[i] = i / 4 % 2 == 0 ? 255 : 1;
  const std::vector<int32_t> expected = product.expected();
  for (const Int8Kernels* kernels : all_int8_kernels()) {
    std::vector<int32_t> sums(expected.size());
    product.multiply({.sums = sums.data()}, *kernels);
    EXPECT_EQ(sums, expected) << kernels->name;
  }
}

const Shape kCodeRows{{"batch", 4}, {"length", 6}}, kCodeDepth{{"d", 64}},
    kCodeColumns{{"heads", 4}, {"d_kv", 32}};

std::map<std::string, Values> int8_feeds() {
  std::map<std::string, Values> feeds;
  std::normal_distribution<float> normal;
  for (int64_t i = 0; i < 24 * 64; ++i)
    feeds["x"].push_back(normal(int8_generator) * static_cast<float>(1 + i / 64));
  for (int64_t i = 0; i < 64 * 128; ++i) feeds["w"].push_back(normal(int8_generator));
  return feeds;
}

class Int8Product : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!test_backend()->is_host()) GTEST_SKIP() << "products of codes are for processors";
  }
};

TEST_F(Int8Product, IsThatOfTheNearestCodes) {
  const std::map<std::string, Values> feeds = int8_feeds();
  for (const bool in_blocks : {true, false}) {
    Graph graph;
    const Quantized rows = quantize_rows(graph.input("x", kCodeRows + kCodeDepth), kCodeDepth),
                    weight = quantize_weight(graph.input("w", kCodeDepth + kCodeColumns), kCodeColumns,
                                             kCodeDepth, in_blocks);
    const Tensor y = int8_product(rows, weight);
    EXPECT_EQ(y.shape(), kCodeRows + kCodeColumns);
    EXPECT_EQ(weight.codes.dtype(), DType::kUInt8);
    const std::vector<Values> values =
        evaluate(graph, {rows.codes, rows.scale, weight.codes, weight.scale, y}, feeds);
    const Values &codes = values[0], &scale = values[1];
    const Values &x = feeds.at("x"), &w = feeds.at("w");
    for (int64_t i = 0; i < 24 * 64; ++i) {
      EXPECT_NEAR(codes[i], x[i] / scale[i / 64], 0.5 + 1e-4);
      EXPECT_LE(std::abs(codes[i]), 127);
    }
    double largest_error = 0;
    for (int64_t row = 0; row < 24; ++row) {
      for (int64_t column = 0; column < 128; ++column) {
        double sum = 0, exact = 0;
        for (int64_t k = 0; k < 64; ++k) {
          sum += codes[row * 64 + k] * (values[2][code_place(column, k, 64, in_blocks)] - 128);
          exact += x[row * 64 + k] * w[k * 128 + column];
        }
        const float expected =
            static_cast<float>(sum) * static_cast<float>(scale[row]) * static_cast<float>(values[3][column]);
        ASSERT_EQ(values[4][row * 128 + column], expected);
        largest_error =
            std::max(largest_error, std::abs(exact - expected) / (8 * static_cast<double>(1 + row)));
      }
    }
    EXPECT_LT(largest_error, 0.05);  // in standard deviations of a sum
  }
}

TEST_F(Int8Product, NoLayoutChangesABit) {
  const std::map<std::string, Values> feeds = int8_feeds();
  Graph graph;
  const Tensor x = graph.input("x", kCodeRows + kCodeDepth), w = graph.input("w", kCodeDepth + kCodeColumns);
  for (const bool in_blocks : {true, false}) {
    const Tensor y =
        int8_product(quantize_rows(x, kCodeDepth), quantize_weight(w, kCodeColumns, kCodeDepth, in_blocks));
    graph.set_output(in_blocks ? "blocks" : "columns", y);
  }
  const MeshRun one = run_on_mesh(graph, Layouts::single(), feeds);
  EXPECT_EQ(one.outputs.at("blocks"), one.outputs.at("columns"));
  for (const auto& [mesh, layout] : {std::array{"x:2", "d:x"},
                                     {"x:4", "d:x"},
                                     {"x:2", "d_kv:x"},
                                     {"x:4", "heads:x"},
                                     {"x:2;y:2", "batch:x;d:y"},
                                     {"x:2;y:2", "heads:x;d:y"},
                                     {"x:2;y:2", "d:x;d_kv:y"},
                                     {"x:8", "d:x"}}) {
    const MeshRun split = run_on_mesh(graph, layouts(mesh, layout), feeds);
    for (const auto& [name, values] : one.outputs)
      EXPECT_EQ(split.outputs.at(name), values) << layout << " " << name;
  }
  const std::vector<MeshRun> processes = run_on_processes(2, graph, layouts("x:2;y:2", "d:x;heads:y"), feeds);
  for (const MeshRun& run : processes) EXPECT_EQ(run.outputs, one.outputs);
}

TEST_F(Int8Product, RowsDoNotInfluenceOneAnother) {
  const std::map<std::string, Values> feeds = int8_feeds();
  const Values &x = feeds.at("x"), &w = feeds.at("w");
  const auto product_of = [&](int64_t first, int64_t rows) {
    Graph graph;
    const Tensor part = graph.input("x", Shape{{"batch", rows}} + kCodeDepth),
                 weight = graph.input("w", kCodeDepth + kCodeColumns);
    const Tensor y = int8_product(quantize_rows(part, kCodeDepth),
                                  quantize_weight(weight, kCodeColumns, kCodeDepth, true));
    return evaluate(graph, {y},
                    {{"x", Values(x.begin() + first * 64, x.begin() + (first + rows) * 64)}, {"w", w}})[0];
  };
  const Values whole = product_of(0, 24);
  for (const auto& [first, rows] : {std::pair(0, 1), {5, 3}, {2, 13}, {23, 1}})
    EXPECT_EQ(product_of(first, rows),
              Values(whole.begin() + first * 128, whole.begin() + (first + rows) * 128));
}

TEST_F(Int8Product, ShowsValuesThatAreNotFinite) {
  Graph graph;
  const Tensor x = graph.input("x", {{"row", 5}, {"d", 4}}), w = graph.input("w", {{"d", 4}, {"n", 16}});
  const Tensor y =
      int8_product(quantize_rows(x, {{"d", 4}}), quantize_weight(w, {{"n", 16}}, {{"d", 4}}, true));
  const Values rows{1, 2, 3, 4, 0, 0, 0, 0, 1, kNaN, 2, 3, 4, kInfinity, 5, 6, 1e-40, 0, 0, 0};
  const Values values = evaluate(graph, {y}, {{"x", rows}, {"w", Values(64, 1)}})[0];
  for (int64_t j = 0; j < 16; ++j) {
    EXPECT_NEAR(values[j], 10, 0.05);
    EXPECT_EQ(values[16 + j], 0);
    EXPECT_TRUE(std::isnan(values[32 + j]));
    EXPECT_FALSE(std::isfinite(values[48 + j]));
    EXPECT_NEAR(values[64 + j], 0, 1e-30);
  }
}

TEST_F(Int8Product, RefusesOtherTypesAndShapes) {
  Graph graph;
  const Tensor x = graph.input("x", {{"a", 4}, {"b", 8}}),
               ids = graph.input("ids", {{"a", 4}}, DType::kInt32);
  EXPECT_THROW(quantize_rows(ids, {{"a", 4}}), Error);
  EXPECT_THROW(quantize_rows(x, {{"c", 4}}), Error);
  EXPECT_THROW(quantize_weight(x, {{"a", 4}}, {{"b", 4}}, false), Error);
  EXPECT_THROW(quantize_weight(x, {{"a", 4}}, {{"b", 8}}, true), Error);  // 4 columns fill no block
  const Quantized rows = quantize_rows(x, {{"b", 8}}),
                  weight = quantize_weight(x, {{"b", 8}}, {{"a", 4}}, false);
  EXPECT_THROW(int8_product(rows, weight), Error);  // the weight sums another dimension
  const Tensor deep = graph.input("deep", {{"b", kMostInt8Products + 4}});
  EXPECT_THROW(
      int8_product(quantize_rows(deep, deep.shape()), quantize_weight(deep, {}, deep.shape(), false)), Error);
}

}  // namespace
}  // namespace mtf::testing
