#include "data/text/objectives/span_noise.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace mtf {
namespace {

using ::testing::ElementsAre;

TEST(SpanNoise, RowsAreFilledByTheLongestText) {
  const auto lengths = [](int64_t inputs) {
    const SpanLengths found = span_lengths(inputs, {});
    return std::pair(found.text, found.targets);
  };
  EXPECT_EQ(lengths(128), std::pair(int64_t{141}, int64_t{29}));
  EXPECT_EQ(lengths(256), std::pair(int64_t{284}, int64_t{58}));
  EXPECT_EQ(lengths(512), std::pair(int64_t{568}, int64_t{114}));
  EXPECT_EQ(lengths(1024), std::pair(int64_t{1137}, int64_t{229}));
  for (int64_t inputs = 8; inputs < 600; ++inputs) {
    const SpanLengths found = span_lengths(inputs, {});
    EXPECT_LE(found.inputs, inputs);
    EXPECT_GT(span_lengths(inputs + 1, {}).text, found.text - 1);
  }
}

TEST(SpanNoise, WithHalfOfTheTokensTargetsAreNoMoreThanInputs) {
  for (int64_t inputs = 8; inputs < 600; ++inputs) {
    const SpanLengths found = span_lengths(inputs, {.density = 0.5, .mean_span = 3});
    EXPECT_LE(found.targets, inputs) << inputs;
  }
}

TEST(SpanNoise, CountsOfNoiseAndSpans) {
  for (int64_t tokens = 1; tokens <= 600; ++tokens) {
    for (const SpanNoise& noise : {SpanNoise{}, SpanNoise{0.5, 3}, SpanNoise{0.15, 64}, SpanNoise{0.9, 1}}) {
      const int64_t length = std::max<int64_t>(tokens, 2);
      const auto share = static_cast<float>(noise.density), span = static_cast<float>(noise.mean_span);
      const int64_t count =
          std::clamp<int64_t>(std::lrint(static_cast<float>(length) * share), 1, length - 1);
      const int64_t spans = std::max<int64_t>(1, std::lrint(static_cast<float>(count) / span));
      const SpanCounts found = span_counts(tokens, noise);
      EXPECT_EQ(found.noise, count);
      EXPECT_EQ(found.spans, std::min({spans, count, length - count}));
    }
  }
}

TEST(SpanNoise, RunsBecomeSentinelsThatCountDown) {
  const std::vector<int32_t> text = {11, 12, 13, 14, 15, 16, 17, 18, 19, 20};
  const std::vector<uint8_t> mask = {0, 0, 1, 1, 0, 0, 0, 1, 0, 1};
  EXPECT_THAT(without_runs(text, mask, true, 99), ElementsAre(11, 12, 99, 15, 16, 17, 98, 19, 97));
  EXPECT_THAT(without_runs(text, mask, false, 99), ElementsAre(99, 13, 14, 98, 18, 97, 20));
}

/// The text that inputs and targets are made of: the runs of each between its sentinels, in turn.
std::vector<int32_t> rebuilt(const std::vector<int32_t>& inputs, const std::vector<int32_t>& targets,
                             int32_t first_sentinel, int64_t spans) {
  const auto runs = [&](const std::vector<int32_t>& ids) {
    std::vector<std::vector<int32_t>> found(1);
    for (const int32_t id : ids) {
      if (id > first_sentinel - spans)
        found.emplace_back();
      else
        found.back().push_back(id);
    }
    return found;
  };
  const auto kept = runs(inputs), taken = runs(targets);
  std::vector<int32_t> text;
  for (size_t i = 0; i < kept.size(); ++i) {
    text.insert(text.end(), kept[i].begin(), kept[i].end());
    if (i + 1 < taken.size()) text.insert(text.end(), taken[i + 1].begin(), taken[i + 1].end());
  }
  return text;
}

TEST(SpanNoise, InputsAndTargetsRebuildTheText) {
  for (const SpanNoise& noise : {SpanNoise{}, SpanNoise{0.5, 3}, SpanNoise{0.15, 64}}) {
    for (int64_t tokens = 1; tokens <= 600; ++tokens) {
      Draws draws(random_key("test", 1), tokens, 0);
      const std::vector<uint8_t> mask = span_mask(tokens, noise, draws);
      ASSERT_EQ(std::ssize(mask), tokens);
      EXPECT_EQ(mask.front(), 0);
      if (tokens > 1) {
        EXPECT_EQ(mask.back(), 1);
        EXPECT_EQ(std::ranges::count(mask, 1), span_counts(tokens, noise).noise);
      }
      std::vector<int32_t> text(static_cast<size_t>(tokens));
      for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<int32_t>(i);
      const std::vector<int32_t> inputs = without_runs(text, mask, true, 9999);
      const std::vector<int32_t> targets = without_runs(text, mask, false, 9999);
      EXPECT_EQ(std::ssize(inputs) + 1, corrupted_lengths(tokens, noise).inputs);
      EXPECT_EQ(std::ssize(targets) + 1, corrupted_lengths(tokens, noise).targets);
      EXPECT_EQ(rebuilt(inputs, targets, 9999, 1000), text);
    }
  }
}

TEST(SpanNoise, AllPartitionsAreEquallyLikely) {
  // 20 tokens, 6 of them noise in 3 spans: C(5, 2) partitions of the noise, C(13, 2) of the rest.
  const SpanNoise noise{0.3, 2};
  constexpr int kDraws = 78'000;
  std::map<std::vector<int>, int> of_noise, of_rest;
  for (int i = 0; i < kDraws; ++i) {
    Draws draws(random_key("test", 2), i, 0);
    const std::vector<uint8_t> mask = span_mask(20, noise, draws);
    std::vector<int> lengths[2];
    for (size_t begin = 0, end = 0; begin < mask.size(); begin = end) {
      while (end < mask.size() && mask[end] == mask[begin]) ++end;
      lengths[mask[begin]].push_back(static_cast<int>(end - begin));
    }
    ++of_rest[lengths[0]];
    ++of_noise[lengths[1]];
  }
  const auto expect_uniform = [&](const std::map<std::vector<int>, int>& counts, double kinds) {
    EXPECT_EQ(counts.size(), static_cast<size_t>(kinds));
    double chi_square = 0;
    for (const auto& [lengths, count] : counts)
      chi_square += std::pow(count - kDraws / kinds, 2) / (kDraws / kinds);
    EXPECT_LT(chi_square, kinds - 1 + 3 * std::sqrt(2 * (kinds - 1)));
  };
  expect_uniform(of_noise, 10);
  expect_uniform(of_rest, 78);
}

}  // namespace
}  // namespace mtf
