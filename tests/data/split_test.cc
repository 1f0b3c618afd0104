#include "data/split.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "data/sources/options.h"
#include "engine/config/load.h"
#include "tests/support/failure.h"

namespace mtf {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::unique_ptr<Source> source_of(const std::vector<int64_t>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return std::make_unique<MemorySource>(std::vector<Feature>{{"id", Shape{}, DType::kInt64}},
                                        std::vector<std::vector<std::byte>>{{bytes.begin(), bytes.end()}});
}

std::vector<int64_t> range(int64_t begin, int64_t end) {
  std::vector<int64_t> values(static_cast<size_t>(end - begin));
  std::iota(values.begin(), values.end(), begin);
  return values;
}

std::set<int64_t> ids(const Source& source) {
  std::set<int64_t> result;
  for (int64_t i = 0; i < source.examples(); ++i) {
    int64_t id = 0;
    source.read({&i, 1}, std::vector<FeatureSlice>{{reinterpret_cast<std::byte*>(&id)}});
    result.insert(id);
  }
  return result;
}

const SplitRule two_parts({{"dev", 0.1}, {"test", 0.2}});

TEST(Split, PartsHaveTheirSharesAndEachExampleOnce) {
  const SplitSource split = split_source(source_of(range(0, 10000)), two_parts, {});
  ASSERT_EQ(split.parts.size(), 2u);
  EXPECT_NEAR(static_cast<double>(split.parts[0]->examples()), 1000, 100);
  EXPECT_NEAR(static_cast<double>(split.parts[1]->examples()), 2000, 130);
  std::set<int64_t> all = ids(*split.train);
  for (const auto& part : split.parts)
    for (const int64_t id : ids(*part)) EXPECT_TRUE(all.insert(id).second) << id;
  EXPECT_EQ(all.size(), 10000u);
}

TEST(Split, AnExampleKeepsItsPartWhenOthersComeOrMove) {
  const std::set<int64_t> before = ids(*split_source(source_of(range(0, 3000)), two_parts, {}).parts[0]);
  std::vector<int64_t> more = range(-2000, 3000);
  std::ranges::reverse(more);
  std::set<int64_t> after = ids(*split_source(source_of(more), two_parts, {}).parts[0]);
  std::erase_if(after, [](int64_t id) { return id < 0; });
  EXPECT_EQ(after, before);
  const SplitRule more_parts({{"dev", 0.1}, {"test", 0.2}, {"third", 0.3}});
  EXPECT_EQ(ids(*split_source(source_of(range(0, 3000)), more_parts, {}).parts[0]), before);
}

TEST(Fingerprint, DiffersWhereExamplesOrTheirOrderDo) {
  const auto of = [](const std::vector<int64_t>& values) { return source_of(values)->fingerprint(); };
  EXPECT_EQ(of({1, 2, 3}), of({1, 2, 3}));
  EXPECT_NE(of({1, 2, 3}), of({1, 2, 4}));
  EXPECT_NE(of({1, 2, 3}), of({1, 3, 2}));
  EXPECT_NE(of({1, 2, 3}), of({1, 2, 3, 3}));
  std::vector<int64_t> many = range(0, 9'000'000);  // of so many bytes some examples are compared
  const std::string before = of(many);
  EXPECT_EQ(of(many), before);
  std::ranges::reverse(many);
  EXPECT_NE(of(many), before);
}

TEST(Fingerprint, OfAPartDependsOnItsExamples) {
  const SplitSource split = split_source(source_of(range(0, 100)), two_parts, {}),
                    again = split_source(source_of(range(0, 100)), two_parts, {}),
                    other = split_source(source_of(range(1, 101)), two_parts, {});
  EXPECT_EQ(split.train->fingerprint(), again.train->fingerprint());
  EXPECT_NE(split.train->fingerprint(), other.train->fingerprint());
  EXPECT_NE(split.train->fingerprint(), split.parts[0]->fingerprint());
}

TEST(Split, IsTheSameForever) {
  std::string parts;
  for (uint64_t hash = 0; hash < 20; ++hash) {
    const auto part = two_parts.part_of(hash);
    parts += part ? fmt::format("{}", *part) : ".";
  }
  EXPECT_EQ(parts, "..........0....1....");
}

TEST(Split, APartWithoutExamplesIsAnError) {
  EXPECT_THAT(failure(
                  [&] {
                    split_source(source_of({1}), SplitRule({{"dev", 1e-9}}), {});
                  },
                  ErrorKind::kData),
              AllOf(HasSubstr("none of 1 example"), HasSubstr("`dev`")));
  EXPECT_THAT(failure([&] {
                split_source(source_of({1}), SplitRule({{"dev", 1 - 1e-9}}), {});
              }),
              HasSubstr("for training"));
}

TEST(Split, SourcesOfAMixtureAreDividedEach) {
  Diagnostics diagnostics;
  const auto options = config::parse<DataOptions>(
      config::parse_yaml(
          "train: {one: {type: identity, examples: 1000, weight: 3}, two: {type: identity, examples: "
          "500}}\nsplit: {dev: 0.2}",
          "test.yaml", diagnostics),
      diagnostics);
  diagnostics.throw_if_errors();
  const SplitSource sources = open_split_sources(*options.train, {.split = SplitRule(options.split)});
  EXPECT_EQ(sources.train->examples() + sources.parts[0]->examples(), 1500);
  EXPECT_NEAR(static_cast<double>(sources.parts[0]->examples()), 300, 60);
}

std::string split_error(const std::string& yaml) {
  Diagnostics diagnostics;
  config::parse<DataOptions>(config::parse_yaml(yaml, "test.yaml", diagnostics), diagnostics);
  return failure([&] { diagnostics.throw_if_errors(); });
}

TEST(Split, SharesMustLeaveSomethingForTraining) {
  EXPECT_THAT(split_error("split: {dev: 0.5, test: 0.5}"), HasSubstr("add up to 1"));
  EXPECT_THAT(split_error("split: {dev: 0}"), HasSubstr("`data.split.dev` is 0"));
  EXPECT_THAT(split_error("split: {dev: -0.1}"), HasSubstr("above 0"));
  EXPECT_THAT(
      split_error("train: {type: text, path: a}\nsequence_length: 8\nvocabulary: bytes\nsplit: {dev: 0.1}"),
      HasSubstr("not other texts"));
}

}  // namespace
}  // namespace mtf
