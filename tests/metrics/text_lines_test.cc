#include "trainer/metrics/text_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "tests/support/failure.h"
#include "trainer/metrics/unicode.h"

namespace mtf {
namespace {

using ::testing::ElementsAre;
using ::testing::StartsWith;

std::vector<std::string> lines_of(std::string text, const std::string& name) {
  LineSplitter lines(name,
                     [&](char* buffer, size_t size) {
                       const size_t got = text.copy(buffer, size);
                       text.erase(0, got);
                       return got;
                     },
                     {.bytes = 20, .setting = "--max-line-bytes"});
  return read_lines(lines);
}

TEST(Lines, LoseTheWhiteSpaceAtTheirEnds) {
  EXPECT_THAT(lines_of("a \r\n\n b\tc\u3000\u00a0\nlast", "x"), ElementsAre("a", "", " b\tc", "last"));
  EXPECT_THAT(lines_of("a\n\n", "x"), ElementsAre("a", ""));
  EXPECT_THAT(lines_of("", "x"), ElementsAre());
}

TEST(Lines, EndOnlyAtLineFeeds) { EXPECT_THAT(lines_of("a\rb\u2028c\n", "x"), ElementsAre("a\rb\u2028c")); }

TEST(Lines, ThatAreNotUtf8AreNamed) {
  EXPECT_THAT(failure([] { lines_of("gut\ngr\xfc\xdf\n", "out.de"); }),
              StartsWith("out.de: line 2: no UTF-8: byte \\xfc after 2 characters; convert"));
}

TEST(Lines, HaveALimit) {
  EXPECT_THAT(lines_of("a\n" + std::string(20, 'b') + "\nc", "x"),
              ElementsAre("a", std::string(20, 'b'), "c"));
  EXPECT_EQ(failure([] { lines_of("a\n" + std::string(21, 'b') + "\nc", "out.de"); }),
            "out.de: line 2: longer than 20 bytes; a file of shorter texts, or a greater `--max-line-bytes`");
}

TEST(Columns, AreBetweenTabs) {
  EXPECT_THAT(split_columns({"a\tb", "c\td\te"}, 2, "x"),
              ElementsAre(ElementsAre("a", "c"), ElementsAre("b", "d\te")));
  EXPECT_THAT(split_columns({"a\tb"}, 1, "x"), ElementsAre(ElementsAre("a\tb")));
}

TEST(Columns, MustAllBeThere) {
  EXPECT_EQ(failure(
                [] {
                  split_columns({"a\tb", "c"}, 2, "refs");
                },
                ErrorKind::kUsage),
            "refs: line 2 has 1 columns, not 2; one tab between two references");
}

TEST(Words, StandBetweenWhiteSpaceOfAllKinds) {
  EXPECT_THAT(split_words("\u2009a\x0b"
                          "b\x1f"
                          "c\u0085d\u1680e\u202ff\u205fg\u3000"),
              ElementsAre("a", "b", "c", "d", "e", "f", "g"));
  EXPECT_THAT(split_words("a\u200b\ufeff"), ElementsAre("a\u200b\ufeff")) << "these are no white space";
  EXPECT_THAT(split_words(" "), ElementsAre());
  EXPECT_EQ(strip(" \u00a0a b\u2028 "), "a b");
}

TEST(Characters, AreDecodedAndEncoded) {
  const std::string text = "aé語\U0001F642";
  EXPECT_EQ(decode_utf8(text), U"aé語\U0001F642");
  std::string again;
  for (const char32_t character : decode_utf8(text)) append_utf8(character, again);
  EXPECT_EQ(again, text);
  EXPECT_EQ(decode_utf8("a\xff"), U"a\uFFFD");
}

TEST(Characters, HaveClasses) {
  EXPECT_EQ(class_of(U'7'), CharacterClass::kNumber);
  EXPECT_EQ(class_of(U'½'), CharacterClass::kNumber);
  EXPECT_EQ(class_of(U'«'), CharacterClass::kPunctuation);
  EXPECT_EQ(class_of(U'€'), CharacterClass::kSymbol);
  EXPECT_EQ(class_of(U'語'), CharacterClass::kOther);
  EXPECT_EQ(class_of(U'\U0001FAE9'), CharacterClass::kSymbol) << "of Unicode 16";
  EXPECT_EQ(class_of(U'\U0010FFFF'), CharacterClass::kOther);
}

}  // namespace
}  // namespace mtf
