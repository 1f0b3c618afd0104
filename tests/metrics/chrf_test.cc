#include "trainer/metrics/chrf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mtf {
namespace {

double chrf(const std::string& hypothesis, const std::vector<std::string>& references,
            const ChrfOptions& options) {
  References of_corpus;
  for (const std::string& reference : references) of_corpus.push_back({reference});
  return corpus_chrf(std::span(&hypothesis, 1), of_corpus, options);
}

TEST(Chrf, OfTheReferenceItselfIs100) {
  EXPECT_NEAR(chrf("größer", {"größer"}, {}), 100, 1e-10);
  EXPECT_NEAR(chrf("größer als", {"größer als"}, {.word_order = 2}), 100, 1e-10);
}

TEST(Chrf, CountsCharactersNotBytes) {
  // One of two characters matches, so precision, recall and score are 1/2.
  EXPECT_NEAR(chrf("öä", {"öü"}, {.char_order = 1}), 50, 1e-10);
}

TEST(Chrf, WeighsRecallByBeta) {
  // The precision is 1, the recall 1/2.
  EXPECT_NEAR(chrf("a", {"ab"}, {.char_order = 1}), 100 * 5 * 0.5 / (4 + 0.5), 1e-10);
  EXPECT_NEAR(chrf("a", {"ab"}, {.char_order = 1, .beta = 1}), 100 * 2 * 0.5 / 1.5, 1e-10);
}

TEST(Chrf, TakesTheBestReference) {
  EXPECT_NEAR(chrf("abc", {"xyz", "abc"}, {}), 100, 1e-10);
  EXPECT_EQ(chrf("abc", {"xyz", ""}, {}), 0);
}

TEST(Chrf, IgnoresWhiteSpaceUnlessTold) {
  EXPECT_NEAR(chrf("a b\u00a0c", {"abc"}, {}), 100, 1e-10);
  EXPECT_LT(chrf("a b c", {"abc"}, {.whitespace = true}), 100);
}

TEST(Chrf, IgnoresCaseWhenTold) {
  EXPECT_LT(chrf("ÄB", {"äb"}, {}), 1);
  EXPECT_NEAR(chrf("ÄB", {"äb"}, {.lowercase = true}), 100, 1e-10);
}

TEST(Chrf, SeparatesPunctuationAtTheEndsOfWords) {
  const ChrfOptions words = {.char_order = 0, .word_order = 1};
  EXPECT_NEAR(chrf("hi!", {"hi !"}, words), 100, 1e-10);
  EXPECT_NEAR(chrf("(hi", {"( hi"}, words), 100, 1e-10);
  EXPECT_LT(chrf("(hi)", {"( hi )"}, words), 100) << "only at one end of a word";
}

TEST(Chrf, NameAndSignatureSayHowItWasComputed) {
  const ChrfOptions options = {.word_order = 2, .beta = 3, .lowercase = true, .eps_smoothing = true};
  EXPECT_EQ(make_chrf(options)->name(), "chrF3++");
  EXPECT_THAT(signature_of(*make_chrf(options), 1).to_string(),
              ::testing::StartsWith("nrefs:1|case:lc|eff:no|nc:6|nw:2|space:no|version:2.6.0"));
  EXPECT_THAT(signature_of(*make_chrf({}), 1).to_string(true),
              ::testing::StartsWith("#:1|c:mixed|e:yes|nc:6|nw:0|s:no|v:2.6.0"));
}

}  // namespace
}  // namespace mtf
