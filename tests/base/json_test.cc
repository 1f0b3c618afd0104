#include "engine/base/json.h"

#include <gtest/gtest.h>

#include <map>
#include <stdexcept>
#include <string>

namespace mtf {
namespace {

TEST(JsonText, IsOneLineOrIndentedInTheOrderOfTheKeys) {
  EXPECT_EQ(json_text({{"b", 1}, {"a", {0.5, nullptr}}}), R"({"b":1,"a":[0.5,null]})");
  EXPECT_EQ(json_text({{"b", 1}}, 1), "{\n \"b\": 1\n}");
  EXPECT_EQ(json_text(nlohmann::json{{"b", 1}, {"a", true}}), R"({"a":true,"b":1})");
  EXPECT_EQ(json_text("a \"name\""), R"("a \"name\"")");
}

TEST(JsonText, ReplacesBytesThatAreNoUtf8) {
  EXPECT_EQ(json_text(std::string("caf\xe9")), "\"caf\xef\xbf\xbd\"");
  EXPECT_EQ(json_text(std::map<std::string, int>{{"\xff", 1}}), "{\"\xef\xbf\xbd\":1}");
}

TEST(JsonText, WritesNumbersWithTheFewestDigits) {
  EXPECT_EQ(json_text({0.172999, -0.172999, 0.172999e-9, 1.0, 0.1 + 0.2, 1e300}),
            "[0.172999,-0.172999,1.72999e-10,1.0,0.30000000000000004,1e+300]");
  EXPECT_EQ(json_text({{"0.17299900000000001", "a \\\"0.17299900000000001"}}),
            R"({"0.17299900000000001":"a \\\"0.17299900000000001"})");
  for (int64_t i = 100'000; i < 1'000'000; i += 7) {
    const double number = static_cast<double>(i) / 1e6;
    EXPECT_LE(json_text(number).size(), 8) << i;
  }
}

void fail_twice(const std::string& key) { throw std::runtime_error(key + " twice"); }

TEST(ParseJson, FindsKeysThatOccurTwiceInOneObject) {
  EXPECT_EQ(parse_json(R"({"a": [{"a": 1}, {"a": 2}], "b": "\u00e9"})", fail_twice).dump(),
            "{\"a\":[{\"a\":1},{\"a\":2}],\"b\":\"é\"}");
  EXPECT_THROW(parse_json(R"([{"a": {"b": 1, "c": [], "b": 2}}])", fail_twice), std::runtime_error);
}

TEST(ParseJson, RefusesWhatIsNoJsonAndDeepNesting) {
  for (const char* text : {"", "{", "[1,]", "nul", "[1] 2", "{\"a\" 1}"})
    EXPECT_THROW(parse_json(text, fail_twice), nlohmann::json::exception) << text;
  const auto nested = [](size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_EQ(parse_json(nested(kDeepestJson), fail_twice).dump(), nested(kDeepestJson));
  EXPECT_THROW(parse_json(nested(kDeepestJson + 1), fail_twice), nlohmann::json::exception);
}

}  // namespace
}  // namespace mtf
