#include "engine/ops/slot_code.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine/base/error.h"
#include "engine/core/slot_code.h"
#include "tests/support/evaluate_tensors.h"
#include "tests/support/split_kernel.h"

namespace mtf::testing {
namespace {

const Shape kShape{{"a", 12}, {"b", 6}, {"c", 36}};

/// Values of both signs, or squares, whose rows differ in size.
Values numbers(DType code) {
  Values values;
  for (int64_t i = 0; i < kShape.size(); ++i) {
    const double value =
        std::sin(static_cast<double>(i + 1)) * std::pow(10, static_cast<double>(i / 36 % 5) - 4);
    values.push_back(static_cast<float>(code == DType::kUInt8 ? value * value : value));
  }
  return values;
}

template <class Code>
double coded(double value, double largest, uint32_t bits) {
  const SlotScale scale = slot_scale(static_cast<float>(largest));
  return decode_slot(encode_slot<Code>(static_cast<float>(value), scale, bits), scale);
}

class SlotCodes : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Types, SlotCodes, ::testing::Values(DType::kInt8, DType::kUInt8),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST_P(SlotCodes, AreThoseOfEachRowByTheBitsOfEachElement) {
  const DType code = GetParam();
  Graph graph;
  const Tensor x = graph.input("x", kShape), largest = largest_of_blocks(x, code);
  EXPECT_EQ(largest.shape(), Shape({{"a", 12}, {"b", 6}}));
  const Tensor codes = encode_slot(x, largest, code, 70), y = decode_slot(codes, largest);
  EXPECT_EQ(codes.dtype(), code);
  const Values values = numbers(code);
  const EvaluateOptions options{.seed = 5, .step = 3, .variables = {}};
  const std::vector<Values> results = evaluate(graph, {largest, y}, {{"x", values}}, options);
  const PhiloxKey key = random_key("encode_slot", options.seed);
  for (int64_t row = 0; row < 72; ++row) {
    double most = 0;
    for (int64_t i = 36 * row; i < 36 * row + 36; ++i) most = std::max(most, std::abs(values[i]));
    ASSERT_EQ(results[0][row], most);
    for (int64_t i = 36 * row; i < 36 * row + 36; ++i) {
      const uint32_t bits = random_bits(key, RandomStream::kRounding, 3, 70 + i);
      ASSERT_EQ(results[1][i], code == DType::kUInt8 ? coded<uint8_t>(values[i], most, bits)
                                                     : coded<int8_t>(values[i], most, bits));
    }
  }
}

TEST_P(SlotCodes, NoLayoutChangesThem) {
  const DType code = GetParam();
  Graph graph;
  const Tensor x = graph.input("x", kShape), largest = largest_of_blocks(x, code),
               codes = encode_slot(x, largest, code), y = decode_slot(codes, largest);
  const Values values = numbers(code);
  const std::vector<Values> whole = evaluate(graph, {largest, codes, y}, {{"x", values}});
  const Mesh mesh(Shape::parse("x:2;y:3"));
  for (const char* rules : {"a:x", "a:y", "c:x", "c:y", "b:y;c:x", "a:x;b:y", "a:y;c:x"}) {
    const LayoutRules layout = LayoutRules::parse(rules);
    EXPECT_EQ(evaluate_split(codes.operation(), {values, whole[0]}, mesh, layout)[0], whole[1]) << rules;
    EXPECT_EQ(evaluate_split(y.operation(), {whole[1], whole[0]}, mesh, layout)[0], whole[2]) << rules;
  }
}

TEST(SlotCodeOperations, RefuseOtherTypesAndShapes) {
  Graph graph;
  const Tensor x = graph.input("x", kShape), largest = largest_of_blocks(x, DType::kInt8);
  EXPECT_THROW(encode_slot(graph.input("d", kShape, DType::kFloat64), largest, DType::kInt8), Error);
  EXPECT_THROW(encode_slot(x, largest, DType::kInt32), Error);
  EXPECT_THROW(encode_slot(x, x, DType::kInt8), Error);
  EXPECT_THROW(decode_slot(x, largest), Error);
  EXPECT_THROW(largest_of_blocks(graph.input("s", {}), DType::kInt8), Error);
}

}  // namespace
}  // namespace mtf::testing
