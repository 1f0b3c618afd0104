#include "engine/base/json.h"

#include <gtest/gtest.h>

#include <map>
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

}  // namespace
}  // namespace mtf
