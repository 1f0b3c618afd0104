#include "trainer/metrics/ter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer/metrics/edit_distance.h"
#include "trainer/metrics/edit_rate.h"
#include "trainer/metrics/numpy_random.h"
#include "trainer/metrics/unicode.h"

namespace mtf {
namespace {

/// Returns the edits between two texts whose letters are the words.
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

TEST(EditCount, OfLongAndUnequalTextsIsThatOfSacrebleu) {
  NumpyRandom random(7);
  const auto text = [&](size_t length, uint32_t words) {
    Units units(length);
    for (uint32_t& unit : units) unit = random.below(words);
    return units;
  };
  struct Case {
    size_t hypothesis, reference;
    uint32_t words;
    int64_t edits;
  };
  for (const Case& c : {Case{60, 60, 9, 42},
                        {200, 150, 30, 171},
                        {70, 260, 12, 208},
                        {10, 400, 5, 391},
                        {400, 10, 5, 390},
                        {1, 120, 3, 119}}) {
    const Units hypothesis = text(c.hypothesis, c.words), reference = text(c.reference, c.words);
    EXPECT_EQ(edit_count(hypothesis, reference), c.edits) << c.hypothesis << " against " << c.reference;
  }
}

TEST(EditDistance, OfAHundredThousandWordsTakesMemoryForSome) {
  Units reference(100'000);
  for (size_t i = 0; i < reference.size(); ++i) reference[i] = static_cast<uint32_t>(i % 1000);
  Units hypothesis = reference;
  hypothesis[50'000] = 7777;
  EditDistance distance(reference, hypothesis.size());
  distance.set(hypothesis);
  EXPECT_EQ(distance.edits(), 1);
  hypothesis[90'000] = 7777;
  EXPECT_EQ(distance.edits_of(hypothesis, 89'999), 2);
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
  EXPECT_THAT(signature_of(*make_ter({}), 1).to_string(),
              ::testing::StartsWith("nrefs:1|case:lc|tok:tercom|norm:no|punct:yes|asian:no|version:2.6.0"));
  const TercomOptions all = {
      .normalized = true, .no_punctuation = true, .asian_support = true, .case_sensitive = true};
  EXPECT_THAT(signature_of(*make_ter(all), 3).to_string(true),
              ::testing::StartsWith("#:3|c:mixed|t:tercom|nr:yes|pn:no|as:yes|v:2.6.0"));
}

}  // namespace
}  // namespace mtf
