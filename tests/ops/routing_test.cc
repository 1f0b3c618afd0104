// The order in which experts give places, and dispatch and combine against one-hot products.
#include "engine/ops/routing.h"

#include <gmock/gmock.h>

#include <limits>

#include "engine/ops/einsum.h"
#include "engine/ops/expert_product.h"
#include "engine/ops/indexing.h"
#include "engine/ops/reshape.h"
#include "tests/support/evaluate_tensors.h"
#include "tests/support/golden.h"

namespace mtf::testing {
namespace {

using ::testing::ElementsAre;

const Dimension kGroup{"group", 4}, kChoice{"choice", 2}, kExperts{"experts", 3};

/// Slot, taker and offsets of four tokens.
std::vector<Values> assigned(const Values& experts, const SlotOptions& options, const Values& priority = {}) {
  Graph graph;
  const Tensor expert = graph.input("expert", {kGroup, kChoice}, DType::kInt32);
  std::map<std::string, Values> feeds{{"expert", experts}};
  Tensor by;
  if (!priority.empty()) {
    by = graph.input("priority", {kGroup, kChoice});
    feeds["priority"] = priority;
  }
  const Slots slots = assign_slots(expert, by, options);
  return evaluate(graph, {slots.slot, slots.taker, slots.offsets}, feeds);
}

TEST(AssignSlots, FirstChoicesGoBeforeSecondOnes) {
  const auto slots =
      assigned({0, 1, 0, 1, 1, 0, 0, 2}, {.experts = 3, .block = kExperts, .capacity = {"c", 2}});
  EXPECT_THAT(slots[0], ElementsAre(0, 3, 1, -1, 2, -1, -1, 4));
  EXPECT_THAT(slots[1], ElementsAre(0, 2, 4, 1, 7, -1));
  EXPECT_THAT(slots[2], ElementsAre(0, 2, 0, 2, 0, 1));
}

TEST(AssignSlots, TokensWithAPlaceMayMakeNoFurtherChoice) {
  const auto slots = assigned({0, 1, 0, 1, 1, 0, 0, 1},
                              {.experts = 3, .block = kExperts, .capacity = {"c", 2}, .one_per_token = true});
  EXPECT_THAT(slots[0], ElementsAre(0, -1, 1, -1, 2, -1, -1, 3));
}

TEST(AssignSlots, HighestPrioritiesComeFirst) {
  const auto slots =
      assigned({0, -1, 0, -1, 0, -1, 1, -1}, {.experts = 3, .block = kExperts, .capacity = {"c", 2}},
               {1, 0, 3, 0, 3, 0, 0, 0});
  EXPECT_THAT(slots[0], ElementsAre(-1, -1, 0, -1, 1, -1, 2, -1));
}

TEST(AssignSlots, BlocksOfSeveralExpertsAreSorted) {
  const auto slots =
      assigned({2, 0, 1, 3, 0, 2, 7, -1}, {.experts = 4, .block = {"blocks", 2}, .capacity = {"c", 8}});
  EXPECT_THAT(slots[0], ElementsAre(8, 1, 2, 10, 0, 9, -1, -1));
  EXPECT_THAT(slots[2], ElementsAre(0, 2, 3, 0, 2, 3));
}

TEST(AssignSlots, RefusesBlocksThatDoNotDivideTheExperts) {
  EXPECT_THROW(assigned(Values(8, 0), {.experts = 4, .block = {"blocks", 3}, .capacity = {"c", 2}}), Error);
}

TEST(Routing, IsTheProductWithOneHotVectors) {
  const Dimension rows{"rows", 2}, capacity{"capacity", 3}, d{"d", 5};
  Graph graph;
  const Tensor expert = graph.input("expert", {rows, kGroup, kChoice}, DType::kInt32);
  const Tensor x = graph.input("x", {rows, kGroup, d}), weights = graph.input("w", {rows, kGroup, kChoice});
  const Slots slots = assign_slots(expert, {}, {.experts = 3, .block = kExperts, .capacity = capacity});
  const Tensor flat = one_hot(slots.slot, {"places", 9});
  const Tensor places = reshape(flat, Shape{rows, kGroup, kChoice, kExperts, capacity});
  const Shape table{kExperts, rows, capacity, d};
  const Tensor dispatched = dispatch(x, slots), expected = einsum({x, places}, table);
  const Tensor combined = combine(dispatched, slots, weights);
  const Tensor expected_y =
      einsum({einsum({weights, places}, {rows, kGroup, kExperts, capacity}), expected}, x.shape());
  std::map<std::string, Values> feeds;
  for (int64_t i = 0; i < 16; ++i) {
    feeds["expert"].push_back(static_cast<double>(i * 5 % 4));
    feeds["w"].push_back(static_cast<double>(i % 7) / 7);
  }
  for (int64_t i = 0; i < 40; ++i) feeds["x"].push_back(static_cast<double>(i * 7 % 13) / 13 - 0.5);
  const auto values = evaluate(graph, {dispatched, expected, combined, expected_y}, feeds);
  EXPECT_EQ(values[0], values[1]);
  expect_close("combined", values[2], values[3], 1e-6);
}

/// Had they been read, numbers that are none would be in the results.
TEST(ExpertProduct, ReadsOnlyTheMatricesOfExpertsThatHaveRows) {
  const Dimension experts{"experts", 6}, one{"experts", 1}, rows{"c", 2}, in{"in", 3}, out{"out", 2};
  Graph graph;
  const Tensor expert = graph.input("expert", {{"group", 1}, kChoice}, DType::kInt32);
  const Tensor x = graph.input("x", {{"group", 1}, in}), w = graph.input("w", {experts, in, out});
  const Slots slots = assign_slots(expert, {}, {.experts = 6, .block = one, .capacity = rows});
  const Tensor y = combine(expert_product(dispatch(x, slots), w, slots.offsets), slots);
  Values matrices(36, std::numeric_limits<double>::quiet_NaN());
  for (const size_t e : {1, 4}) std::fill_n(matrices.begin() + static_cast<ptrdiff_t>(e * 6), 6, e);
  EXPECT_THAT(evaluate(graph, {y}, {{"expert", {4, 1}}, {"x", {1, 2, 3}}, {"w", matrices}})[0],
              ElementsAre(30, 30));
}

}  // namespace
}  // namespace mtf::testing
