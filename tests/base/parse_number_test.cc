#include "engine/base/parse_number.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>

namespace mtf {
namespace {

TEST(ParseNumber, TakesWholeNumbers) {
  EXPECT_EQ(parse_number<int>("0"), 0);
  EXPECT_EQ(parse_number<int>("-12"), -12);
  EXPECT_EQ(parse_number<int64_t>("007"), 7);
  EXPECT_EQ(parse_number<int64_t>("-9223372036854775808"), INT64_MIN);
  EXPECT_EQ(parse_number<uint64_t>("18446744073709551615"), UINT64_MAX);
}

TEST(ParseNumber, TakesNothingBesideTheNumber) {
  for (const char* text : {"", " ", "-", "+5", " 5", "5 ", "5k", "5.0", "1e3", "0x10", "--5", "five"})
    EXPECT_EQ(parse_number<int64_t>(text), std::nullopt) << text;
  EXPECT_EQ(parse_number<int>(std::string_view()), std::nullopt);
  EXPECT_EQ(parse_number<int>(std::string_view("5\0", 2)), std::nullopt);
  EXPECT_EQ(parse_number<int>(std::string_view("123").substr(0, 2)), 12);
}

TEST(ParseNumber, TakesNoNumberThatTheTypeCannotHold) {
  EXPECT_EQ(parse_number<int>("2147483648"), std::nullopt);
  EXPECT_EQ(parse_number<uint64_t>("18446744073709551616"), std::nullopt);
  EXPECT_EQ(parse_number<uint64_t>("-1"), std::nullopt);
  EXPECT_EQ(parse_number<double>("1e999"), std::nullopt);
  EXPECT_EQ(parse_number<float>("1e39"), std::nullopt);
}

TEST(ParseNumber, TakesFloatingPoint) {
  EXPECT_EQ(parse_number<double>("-2.5e-3"), -2.5e-3);
  EXPECT_EQ(parse_number<double>("3"), 3.0);
  EXPECT_EQ(parse_number<double>("1.5x"), std::nullopt);
  EXPECT_EQ(parse_number<double>("+1.5"), std::nullopt);
  EXPECT_TRUE(std::isinf(parse_number<double>("inf").value()));
}

}  // namespace
}  // namespace mtf
