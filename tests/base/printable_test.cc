// Tests that any text is printed as one line of UTF-8.
#include "engine/base/printable.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"

namespace mtf {
namespace {

using ::testing::HasSubstr;

TEST(Printable, EscapesControlCharactersAndBytesThatAreNoUtf8) {
  EXPECT_EQ(printable("größe: 日本 😀"), "größe: 日本 😀");
  EXPECT_EQ(printable("a\tb\r\nc"), "a\\tb\\r\\nc");
  EXPECT_EQ(printable(std::string_view("\x1b[2J\0\x7f", 6)), "\\x1b[2J\\x00\\x7f");
  EXPECT_EQ(printable("\xc2\x85"), "\\xc2\\x85") << "a control character of Latin-1";
  EXPECT_EQ(printable("\xff \xc3"), "\\xff \\xc3");
  EXPECT_EQ(printable("\xc0\xaf \xe0\x80\xaf"), "\\xc0\\xaf \\xe0\\x80\\xaf") << "longer than needed";
  EXPECT_EQ(printable("\xed\xa0\x80 \xf4\x90\x80\x80"), "\\xed\\xa0\\x80 \\xf4\\x90\\x80\\x80")
      << "no characters";
}

TEST(Printable, KeepsLinesWhereTheyAreMeant) { EXPECT_EQ(printable_lines("a\nb\x1b"), "a\nb\\x1b"); }

TEST(Printable, KeepsColumns) {
  EXPECT_EQ(printable_columns("a\x1b"
                              "b\xff"
                              "c"),
            "a\uFFFDb\uFFFDc");
}

TEST(Printable, LongValuesLoseTheirMiddle) {
  EXPECT_EQ(shortened("`a b` and c"), "`a b` and c");
  EXPECT_EQ(shortened("an open ` stays"), "an open ` stays");
  const std::string blanks = "`" + std::string(100'000, 'x') + " " + std::string(100'000, 'y') + "`";
  const std::string quoted = shortened("not " + blanks + " but `z`");
  EXPECT_LT(quoted.size(), 250u);
  EXPECT_TRUE(quoted.starts_with("not `xxx") && quoted.ends_with("yyy` but `z`")) << quoted;
  EXPECT_LT(shortened("not " + std::string(200'000, '7')).size(), 550u);
  std::string umlauts;
  for (int i = 0; i < 1000; ++i) umlauts += "ü";
  EXPECT_EQ(printable(shortened(umlauts)), shortened(umlauts));  // characters are not cut in two
  const Problem problem{ErrorKind::kConfig, {}, "value `" + std::string(200'000, 'x') + "`", "write `1`", {}};
  EXPECT_LT(problem.to_string().size(), 300u);
}

TEST(Printable, HoldsForAllThatAProblemShows) {
  Problem problem{
      ErrorKind::kConfig, {"a\n.yaml", 1, 3, 2, "k\x1b: \xff"}, "key `k\x1b`", "not `\xff`", "line\n\x07"};
  const std::string text = problem.to_string();
  EXPECT_THAT(text, HasSubstr("a\\n.yaml:1:3: key `k\\x1b`; not `\\xff`\n"));
  EXPECT_THAT(text, HasSubstr("| k\uFFFD: \uFFFD\n"));
  EXPECT_THAT(text, HasSubstr("\nline\n\\x07"));
}

}  // namespace
}  // namespace mtf
