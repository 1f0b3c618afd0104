#include "data/vocabulary/pre_tokenizer.h"

#include <gmock/gmock.h>

namespace mtf {
namespace {

using ::testing::ElementsAre;
using Matches = SplitAtPattern::Matches;

std::vector<std::string> words_of(const std::vector<PreTokenizerStep>& steps, std::string_view text,
                                  bool begins_text = true) {
  const PreTokenizer pre_tokenizer(steps, "tokenizer.json");
  WordDivision division(pre_tokenizer);
  std::vector<std::string> words;
  for (const WordDivision::Word& word : division.divide(text, begins_text)) words.emplace_back(word.text);
  return words;
}

// What `tokenizers` 0.23.3 makes of the same.
TEST(PreTokenizer, MatchesAreWordsOrPartsOfThem) {
  const auto words = [](Matches matches, bool inverted = false, bool is_regex = true) {
    return words_of({SplitAtPattern{"-", is_regex, matches, inverted}}, "-a--b-");
  };
  EXPECT_THAT(words(Matches::kRemoved), ElementsAre("a", "b"));
  EXPECT_THAT(words(Matches::kRemoved, true), ElementsAre("-", "-", "-", "-"));
  EXPECT_THAT(words(Matches::kIsolated), ElementsAre("-", "a", "-", "-", "b", "-"));
  EXPECT_THAT(words(Matches::kMergedWithPrevious), ElementsAre("-", "a-", "-", "b-"));
  EXPECT_THAT(words(Matches::kMergedWithPrevious, true), ElementsAre("-a", "-", "-b", "-"));
  EXPECT_THAT(words(Matches::kMergedWithNext), ElementsAre("-a", "-", "-b", "-"));
  EXPECT_THAT(words(Matches::kMergedWithNext, false, false), ElementsAre("-a", "-", "-b", "-"));
  EXPECT_THAT(words(Matches::kMergedWithNext, true), ElementsAre("-", "a-", "-", "b-"));
  EXPECT_THAT(words(Matches::kContiguous), ElementsAre("-", "a", "--", "b", "-"));
  EXPECT_THAT(words(Matches::kContiguous, false, false), ElementsAre("-", "a", "--", "b", "-"));
}

TEST(PreTokenizer, LinesEndWithALineFeedOnly) {
  EXPECT_THAT(words_of({SplitAtPattern{.pattern = "^b|a$|."}}, "a\nb\r\u0085c"),
              ElementsAre("a", "\n", "b", "\r", "\u0085", "c"));
}

TEST(PreTokenizer, PlacesAreThoseOfUtf8) {
  EXPECT_THAT(words_of({SplitAtPattern{.pattern = "\\p{L}+"}}, "größe🦊🦊狐-狐"),
              ElementsAre("größe", "🦊🦊", "狐", "-", "狐"));
}

TEST(PreTokenizer, BlanksAreSpelledInEachWordOrAtTheBeginOfTheText) {
  const SplitAtPattern at_a{.pattern = "a"};
  EXPECT_THAT(words_of({at_a, SpellBlanks{.sign = "_"}}, "x a_y"), ElementsAre("_x_", "_a", "_y"));
  const SpellBlanks at_begin{.sign = "_", .front = SpellBlanks::Front::kBeginOfText};
  EXPECT_THAT(words_of({at_a, at_begin}, "x a y"), ElementsAre("_x_", "a", "_y"));
  EXPECT_THAT(words_of({at_a, at_begin}, "x a y", false), ElementsAre("x_", "a", "_y"));
}

}  // namespace
}  // namespace mtf
