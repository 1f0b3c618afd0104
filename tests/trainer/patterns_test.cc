// Tests what is said of patterns that are no regular expressions.
#include "trainer/optimizer/patterns.h"

#include <gmock/gmock.h>

namespace mtf {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Patterns, SaysWhatIsWrong) {
  const auto problem = [](const std::string& pattern) { return pattern_problem("train.trainable", pattern); };
  EXPECT_EQ(problem("*"),
            "`train.trainable`: `*` is not a regular expression: nothing stands before `*` (`.*` matches "
            "everything)");
  for (const char* pattern : {"+", "?", "a|+", "(+)", "^+", "\\b+", "{2}", "(?=a)+"})
    EXPECT_THAT(problem(pattern), HasSubstr(": nothing stands before `")) << pattern;
  for (const char* pattern : {"(", "layer_(1", "(?:", "[)](", "\\)(a", "[[:alpha:])](", "a{2}("})
    EXPECT_THAT(problem(pattern), HasSubstr(": `(` without `)`")) << pattern;
  for (const char* pattern : {")", "a(b))", "[(])", "\\()"})
    EXPECT_THAT(problem(pattern), HasSubstr(": `)` without `(`")) << pattern;
  EXPECT_THAT(problem("(?<=a)b"), HasSubstr("`(?` is not followed by `:`, `=` or `!`"));
  EXPECT_THAT(problem("[ab"), HasSubstr("`[` without `]`"));
  EXPECT_THAT(problem("[z-a]"), HasSubstr("a range of characters that is none"));
  EXPECT_THAT(problem("a{2"), HasSubstr("`{` without `}`"));
  EXPECT_THAT(problem("a{x}"), HasSubstr("`{` is not followed by `2}`, `2,}` or `2,5}`"));
  EXPECT_THAT(problem("a\\"), HasSubstr("what follows `\\` is missing or incomplete"));
  EXPECT_THAT(problem("\\1"), HasSubstr("brackets that are not there"));
  EXPECT_THAT(problem("[[:letters:]]"), HasSubstr("an unknown class of characters"));
  EXPECT_THAT(problem("a{99999999999}"), HasSubstr("it is too large"));
  EXPECT_THAT(problem(std::string(501, 'a')), HasSubstr("more than 500 characters"));
}

TEST(Patterns, LeavesSoundOnesAlone) {
  for (const char* pattern : {"", ".*", "a**", "(a|b)+$", "[]a[(]", "x{2,3}?", "(?!a)b", "\\*", "}"})
    EXPECT_THAT(pattern_problem("key", pattern), IsEmpty()) << pattern;
}

TEST(Patterns, AnExactOneIsOfItsNameAlone) {
  EXPECT_EQ(exact_pattern("embedding"), "^embedding$$");  // the dollar sign as a configuration has it
  EXPECT_TRUE(matches_any("embedding", {"^embedding$"}));
  EXPECT_FALSE(matches_any("embedding_norm/scale", {"^embedding$"}));
}

}  // namespace
}  // namespace mtf
