#include "data/metrics/ter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/metrics/edit_rate.h"
#include "data/metrics/unicode.h"

namespace mtf {
namespace {

/// Words are letters.
int64_t edits(std::string_view hypothesis, std::string_view reference) {
  return edit_count(Units(hypothesis.begin(), hypothesis.end()), Units(reference.begin(), reference.end()));
}

TEST(EditCount, CountsInsertionsDeletionsAndSubstitutions) {
  EXPECT_EQ(edits("abcd", "abcd"), 0);
  EXPECT_EQ(edits("abd", "abcd"), 1);
  EXPECT_EQ(edits("abxcd", "abcd"), 1);
  EXPECT_EQ(edits("abxd", "abcd"), 1);
  EXPECT_EQ(edits("", "abcd"), 4);
  EXPECT_EQ(edits("abcd", ""), 4);
  EXPECT_EQ(edits("", ""), 0);
}

TEST(EditCount, AShiftOfAnyLengthIsOneEdit) {
  EXPECT_EQ(edits("bcdea", "abcde"), 1);
  EXPECT_EQ(edits("defgabc", "abcdefg"), 1);
  EXPECT_EQ(edits("badc", "abcd"), 2);
}

TEST(EditCount, WordsShiftAtMostTenAtATime) {
  EXPECT_EQ(edits("klmnopqrstABCDEFGHIJ", "ABCDEFGHIJklmnopqrst"), 1);
  EXPECT_EQ(edits("klmnopqrstuABCDEFGHIJK", "ABCDEFGHIJKklmnopqrstu"), 2);
}

TEST(EditCount, LengthsMayDifferByAFactorOfAHundred) {
  EXPECT_EQ(edits(std::string(300, 'a'), "aaa"), 297);
  EXPECT_EQ(edits("aaa", std::string(300, 'a')), 297);
}

TEST(Ter, IsEditsPerWordOfTheReference) {
  const std::vector<std::string> hypothesis = {"a b x d"}, reference = {"A b c d e"};
  EXPECT_NEAR(corpus_ter(hypothesis, {reference}).score, 100 * 2.0 / 5, 1e-10);
  EXPECT_NEAR(corpus_ter(hypothesis, {reference}, {.case_sensitive = true}).score, 100 * 3.0 / 5, 1e-10);
}

TEST(Ter, TakesTheFewestEditsAndTheMeanLengthOfSeveralReferences) {
  const std::vector<std::string> hypothesis = {"a b c"};
  const TerScore ter = corpus_ter(hypothesis, {{"a b c d"}, {"x y z u v w"}});
  EXPECT_EQ(ter.edits, 1);
  EXPECT_EQ(ter.reference_length, 5);
}

TEST(Ter, OfAnEmptyReferenceIs100OrNothing) {
  const std::vector<std::string> empty = {""}, text = {"a"};
  EXPECT_EQ(corpus_ter(text, {empty}).score, 100);
  EXPECT_EQ(corpus_ter(empty, {empty}).score, 0);
}

std::string words(std::string_view line, const TercomOptions& options) {
  return collapse_white_space(tercom_tokenize(line, options));
}

TEST(TercomTokenizer, LowersCase) {
  EXPECT_EQ(words("ΟΔΟΣ  Ä, b.", {}), "οδος ä, b.");
  EXPECT_EQ(words("ΟΔΟΣ  Ä", {.case_sensitive = true}), "ΟΔΟΣ Ä");
}

TEST(TercomTokenizer, SeparatesPunctuationAndPossessives) {
  EXPECT_EQ(words("Ann's 3.5% &amp; more.", {.normalized = true}), "ann 's 3.5 % & more .");
  EXPECT_EQ(words("我们。", {.normalized = true}), "我们。");
  EXPECT_EQ(words("我们。", {.normalized = true, .asian_support = true}), "我 们 。");
}

TEST(TercomTokenizer, RemovesPunctuation) {
  EXPECT_EQ(words("so, (he) said: \"3.5!\"", {.no_punctuation = true}), "so he said 35");
  EXPECT_EQ(words("好。a，", {.no_punctuation = true}), "好。a，");
  EXPECT_EQ(words("好。a，", {.no_punctuation = true, .asian_support = true}), "好a");
}

TEST(Ter, SignatureSaysHowItWasComputed) {
  EXPECT_THAT(ter_signature({}, 1).to_string(),
              testing::StartsWith("nrefs:1|case:lc|tok:tercom|norm:no|punct:yes|asian:no|version:mtf-"));
  const TercomOptions all = {
      .normalized = true, .no_punctuation = true, .asian_support = true, .case_sensitive = true};
  EXPECT_THAT(ter_signature(all, 3).to_string(true),
              testing::StartsWith("#:3|c:mixed|t:tercom|nr:yes|pn:no|as:yes|v:mtf-"));
}

}  // namespace
}  // namespace mtf
