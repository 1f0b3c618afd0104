#include "data/mixed_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "data/loader.h"

namespace mtf {
namespace {

/// Returns a source with the examples begin, begin + 1, ...
std::unique_ptr<Source> numbers(int64_t begin, int64_t count, bool one_text = false) {
  std::vector<int64_t> values(count);
  std::iota(values.begin(), values.end(), begin);
  const auto bytes = std::as_bytes(std::span(values));
  return std::make_unique<MemorySource>(
      std::vector<Feature>{{.name = "id", .shape = {}, .dtype = DType::kInt64, .one_text = one_text}},
      std::vector<std::vector<std::byte>>{{bytes.begin(), bytes.end()}});
}

std::shared_ptr<const Source> mixed(const std::vector<double>& weights) {
  std::vector<std::unique_ptr<Source>> sources;
  sources.push_back(numbers(0, 100));
  sources.push_back(numbers(1000, 10));
  sources.push_back(numbers(2000, 40));
  return std::make_shared<MixedSource>(std::move(sources), weights);
}

std::vector<int64_t> stream_of(const std::shared_ptr<const Source>& source, int64_t count,
                               bool shuffle = true, int64_t start = 0) {
  const BatchStream stream(
      source, TrainingBatches{.batch_size = 1, .seed = 3, .shuffle = shuffle, .start_row = start});
  Batch batch = stream.make_batch();
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < count; ++i) {
    stream.read(i, batch);
    ids.push_back(batch.values<int64_t>(0)[0]);
  }
  return ids;
}

TEST(MixedSource, WithoutWeightsAnEpochHasEachExampleOnce) {
  const auto source = mixed({});
  EXPECT_EQ(source->examples(), 150);
  const std::vector<int64_t> ids = stream_of(source, 150);
  EXPECT_EQ(std::set<int64_t>(ids.begin(), ids.end()).size(), 150u);
  EXPECT_EQ(stream_of(source, 150, false)[100], 1000);
}

TEST(MixedSource, WithWeightsEachSourceHasItsShareAndItsOwnEpochs) {
  const std::vector<int64_t> ids = stream_of(mixed({1, 2, 1}), 400);
  std::map<int64_t, std::vector<int64_t>> by_source;
  for (const int64_t id : ids) by_source[id / 1000].push_back(id);
  EXPECT_NEAR(static_cast<double>(by_source[0].size()), 100, 1);
  EXPECT_NEAR(static_cast<double>(by_source[1].size()), 200, 1);
  EXPECT_NEAR(static_cast<double>(by_source[2].size()), 100, 1);
  for (int64_t epoch = 0; epoch < 19; ++epoch) {  // source 1 has 10 examples
    const auto begin = by_source[1].begin() + 10 * epoch;
    EXPECT_EQ(std::set<int64_t>(begin, begin + 10).size(), 10u);
  }
}

TEST(MixedSource, AnyRowOfTheStreamCanBeTheFirst) {
  const auto source = mixed({0.3, 5, 1});
  const std::vector<int64_t> all = stream_of(source, 300), later = stream_of(source, 100, true, 200);
  EXPECT_EQ(std::vector<int64_t>(all.begin() + 200, all.end()), later);
}

TEST(MixedSource, HasOneTextInARowIfAllSourcesHave) {
  for (const bool last : {false, true}) {
    std::vector<std::unique_ptr<Source>> sources;
    sources.push_back(numbers(0, 3, true));
    sources.push_back(numbers(10, 3, last));
    EXPECT_EQ(MixedSource(std::move(sources), {}).features()[0].one_text, last);
  }
}

TEST(MixtureSchedule, NoSourceIsAheadOrBehind) {
  for (const std::vector<double>& weights :
       {std::vector<double>{1, 1}, {1, 2, 3, 4}, {0.001, 7, 0.5}, {5}, {1, 1, 1, 1, 1, 1, 1}}) {
    const MixtureSchedule schedule(weights);
    const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
    std::vector<int64_t> rows(weights.size(), 0);
    for (int64_t row = 0; row < 5000; ++row) {
      const auto turn = schedule.turn(row);
      EXPECT_EQ(turn.row, rows[turn.source]++);
      for (size_t k = 0; k < weights.size(); ++k) {
        const double share = static_cast<double>(row + 1) * weights[k] / all;
        ASSERT_LE(std::abs(static_cast<double>(rows[k]) - share), static_cast<double>(weights.size()));
      }
    }
  }
}

TEST(MixedSource, TheFingerprintIsThatOfAllSourcesInTheirOrder) {
  const auto of = [](int64_t first, int64_t second) {
    std::vector<std::unique_ptr<Source>> sources;
    sources.push_back(numbers(first, 5));
    sources.push_back(numbers(second, 5));
    return MixedSource(std::move(sources), {}).fingerprint();
  };
  EXPECT_EQ(of(0, 100), of(0, 100));
  EXPECT_NE(of(0, 100), of(0, 101));
  EXPECT_NE(of(0, 100), of(100, 0));
}

}  // namespace
}  // namespace mtf
