// Tests the search for recomputation and microbatches with steps whose costs are formulas: what it measures, and in which
// order.
#include "trainer/costs/recompute_search.h"

#include <gmock/gmock.h>

#include <limits>

namespace mtf::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsNull;
using ::testing::NotNull;

constexpr int64_t kLimit = 100;

/// Seconds and bytes of a step with so many microbatches.
struct Formula {
  std::function<double(int64_t)> seconds;
  std::function<int64_t(int64_t)> bytes;
};

struct CountedSearch {
  std::vector<int64_t> measured;  ///< microbatches, in the order in which they were asked for
  RecomputeSearch search;

  CountedSearch(std::vector<int64_t> counts, bool is_pipelined, const Formula& formula)
      : search({.counts = std::move(counts),
                .chooses_layers = false,
                .is_pipelined = is_pipelined,
                .measure = [this, formula](const Recompute&, int64_t microbatches) {
                  measured.push_back(microbatches);
                  const int64_t bytes = formula.bytes(microbatches);
                  MeasuredStep step;
                  step.is_legal = true;
                  step.trial.seconds = formula.seconds(microbatches);
                  step.trial.memory = {bytes, {kLimit, "test"}};
                  step.trial.fits = bytes <= kLimit;
                  return step;
                }}) {}
};

const std::vector<int64_t> kCounts = {1, 2, 4, 8, 16, 32, 64};

/// Stages wait less with more microbatches, each of which costs something itself.
double of_stages(int64_t microbatches) {
  const auto n = static_cast<double>(microbatches);
  return (1 + 3 / n) * (1 + 0.02 * n);
}

TEST(RecomputeSearch, StagesGetMoreMicrobatchesWhileTheseAreFaster) {
  CountedSearch searched(kCounts, true, {of_stages, [](int64_t) { return kLimit; }});
  const MeasuredStep* best = searched.search.run();
  ASSERT_THAT(best, NotNull());
  EXPECT_EQ(best->trial.microbatches, 16);
  EXPECT_THAT(searched.measured, ElementsAre(1, 2, 4, 8, 16, 32)) << "the largest program is not compiled";
}

TEST(RecomputeSearch, StagesGetMoreMicrobatchesUntilTheyFit) {
  CountedSearch searched(kCounts, true, {of_stages, [](int64_t n) { return 32 * kLimit / n; }});
  const MeasuredStep* best = searched.search.run();
  ASSERT_THAT(best, NotNull());
  EXPECT_EQ(best->trial.microbatches, 32);
  CountedSearch none(kCounts, true, {of_stages, [](int64_t) { return 2 * kLimit; }});
  EXPECT_THAT(none.search.run(), IsNull());
  CountedSearch slow(kCounts, true, {of_stages, [](int64_t n) { return 32 * kLimit / n; }});
  EXPECT_THAT(slow.search.run(1), IsNull());
  EXPECT_THAT(slow.measured, ElementsAre(1, 2, 4, 8, 16, 32)) << "with more of them it would be slower still";
}

TEST(RecomputeSearch, WithoutStagesTheFewestThatFitAreTaken) {
  const auto seconds = [](int64_t n) { return 1 + 0.1 * static_cast<double>(n); };
  CountedSearch searched(kCounts, false, {seconds, [](int64_t n) { return 4 * kLimit / n; }});
  const MeasuredStep* best = searched.search.run();
  ASSERT_THAT(best, NotNull());
  EXPECT_EQ(best->trial.microbatches, 4);
  CountedSearch none(kCounts, false, {seconds, [](int64_t) { return 2 * kLimit; }});
  EXPECT_THAT(none.search.run(), IsNull());
  EXPECT_THAT(none.measured, ElementsAre(1, 64)) << "if the most do not fit, no number does";
  CountedSearch slow(kCounts, false, {seconds, [](int64_t n) { return 4 * kLimit / n; }});
  EXPECT_THAT(slow.search.run(1), IsNull());
  EXPECT_THAT(slow.measured, ElementsAre(1));
}

}  // namespace
}  // namespace mtf::testing
