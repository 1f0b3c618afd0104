#include "data/text/example.h"

#include <gmock/gmock.h>

#include <string>

namespace mtf {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Kind = ExampleFeature::Kind;

/// Returns a field of a message: its number, wire type 2, its length, its bytes.
std::string field(int number, const std::string& bytes) {
  return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(bytes.size())} + bytes;
}

/// Returns an Example with one feature.
std::string example(const std::string& name, const std::string& feature) {
  return field(1, field(1, field(1, name) + field(2, feature)));
}

TEST(Example, ListsOfIntegersPackedOrNot) {
  const std::string packed = field(3, field(1, {5, '\xac', '\x02', 1}));  // 5, 300, 1
  EXPECT_THAT(parse_example(example("targets", packed))->at("targets").integers, ElementsAre(5, 300, 1));
  const std::string apart = field(3, {8, 5, 8, '\xac', '\x02', 8, 1});
  EXPECT_THAT(parse_example(example("targets", apart))->at("targets").integers, ElementsAre(5, 300, 1));
  const std::string minus_one = field(3, field(1, std::string(9, '\xff') + '\x01'));
  EXPECT_THAT(parse_example(example("targets", minus_one))->at("targets").integers, ElementsAre(-1));
  EXPECT_EQ(parse_example(example("targets", apart))->at("targets").kind, Kind::kIntegers);
}

TEST(Example, Texts) {
  const std::string message = example("inputs", field(1, field(1, "ein Haus") + field(1, "")));
  const Example parsed = parse_example(message).value();
  EXPECT_EQ(parsed.at("inputs").kind, Kind::kTexts);
  EXPECT_THAT(parsed.at("inputs").texts, ElementsAre("ein Haus", ""));
}

TEST(Example, FeaturesOfAllNamesAreThere) {
  const std::string message = example("a", field(2, field(1, "1234"))) + example("b", "") +
                              example("c", field(3, "")) + field(9, "new");
  const Example parsed = parse_example(message).value();
  EXPECT_EQ(parsed.size(), 3u);
  EXPECT_EQ(parsed.at("a").kind, Kind::kNumbers);
  EXPECT_EQ(parsed.at("b").kind, Kind::kNone);
  EXPECT_EQ(parsed.at("c").kind, Kind::kIntegers);
  EXPECT_THAT(parsed.at("c").integers, IsEmpty());
  EXPECT_THAT(*parse_example(""), IsEmpty());
}

TEST(Example, WhatIsCutOffIsNoExample) {
  const std::string message = example("targets", field(3, field(1, {5, 6, 7})));
  for (size_t size = 1; size < message.size(); ++size)
    EXPECT_EQ(parse_example(message.substr(0, size)), std::nullopt) << size;
  EXPECT_EQ(parse_example(field(1, field(1, "text"))), std::nullopt);
}

}  // namespace
}  // namespace mtf
