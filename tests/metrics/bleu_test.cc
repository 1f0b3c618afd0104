#include "trainer/metrics/bleu.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "data/vocabulary/sentencepiece_vocabulary.h"
#include "data/vocabulary/train_vocabulary.h"
#include "engine/base/error.h"
#include "tests/support/failure.h"
#include "trainer/metrics/unicode.h"

namespace mtf {
namespace {

using ::testing::ElementsAre;

const std::vector<std::string> kCat = {"the cat sat on the mat"};

TEST(Bleu, OfTheReferenceItselfIs100) {
  const BleuScore bleu = corpus_bleu(kCat, {kCat});
  EXPECT_NEAR(bleu.score, 100, 1e-10);
  EXPECT_THAT(bleu.matches, ElementsAre(6, 5, 4, 3));
  EXPECT_THAT(bleu.totals, ElementsAre(6, 5, 4, 3));
}

TEST(Bleu, CountsAWordAtMostAsOftenAsTheReferenceThatHasItMostOften) {
  const std::vector<std::string> hypothesis = {"the the the the"};
  EXPECT_EQ(corpus_bleu(hypothesis, {{"the cat"}}).matches[0], 1);
  EXPECT_EQ(corpus_bleu(hypothesis, {{"the cat"}, {"the the dog"}}).matches[0], 2);
}

TEST(Bleu, TakesTheLengthOfTheClosestReferenceAndOfTwoTheShorter) {
  const std::vector<std::string> hypothesis = {"a b c d"};
  EXPECT_EQ(corpus_bleu(hypothesis, {{"a b c d e f g"}, {"a b c"}}).reference_length, 3);
  EXPECT_EQ(corpus_bleu(hypothesis, {{"a b c d e"}, {"a b c"}}).reference_length, 3);
}

TEST(Bleu, PunishesBrevity) {
  const std::vector<std::string> hypothesis = {"the cat sat on"};
  const BleuScore bleu = corpus_bleu(hypothesis, {kCat});
  EXPECT_DOUBLE_EQ(bleu.brevity_penalty, std::exp(1 - 6.0 / 4));
  EXPECT_NEAR(bleu.score, 100 * bleu.brevity_penalty, 1e-10);
}

TEST(Bleu, SmoothsOrdersWithoutMatches) {
  const std::vector<std::string> hypothesis = {"the mat sat the cat"};
  const auto precisions = [&](BleuSmoothing smoothing, std::optional<double> value = {}) {
    const BleuOptions options = {.smoothing = smoothing, .smooth_value = value};
    return corpus_bleu(hypothesis, {kCat}, options).precisions;
  };
  EXPECT_THAT(precisions(BleuSmoothing::kNone), ElementsAre(100, 50, 0, 0));
  EXPECT_THAT(precisions(BleuSmoothing::kExp), ElementsAre(100, 50, 100.0 / (2 * 3), 100.0 / (4 * 2)));
  EXPECT_THAT(precisions(BleuSmoothing::kFloor), ElementsAre(100, 50, 100 * 0.1 / 3, 100 * 0.1 / 2));
  EXPECT_THAT(precisions(BleuSmoothing::kAddK, 2),
              ElementsAre(100, 100 * 4.0 / 6, 100 * 2.0 / 5, 100 * 2.0 / 4));
}

TEST(Bleu, LeavesOutOrdersThatAShortSentenceDoesNotHave) {
  const std::vector<std::string> sentence = {"yes please"};
  EXPECT_NEAR(corpus_bleu(sentence, {sentence}, {.effective_order = true}).score, 100, 1e-10);
  EXPECT_LT(corpus_bleu(sentence, {sentence}).score, 1e-6);
}

TEST(Bleu, OfEmptyTextIs0) {
  const std::vector<std::string> empty = {""};
  EXPECT_EQ(corpus_bleu(empty, {kCat}).score, 0);
  EXPECT_EQ(corpus_bleu(kCat, {empty}).score, 0);
  EXPECT_EQ(corpus_bleu(empty, {empty}).score, 0);
}

/// Returns a model for the tokenizers that need one.
std::string model_of_pieces() {
  TextSample sample;
  sample.add("the cat sat on the mat");
  const std::string path =  // unique, since tests run in parallel
      ::testing::TempDir() + ::testing::UnitTest::GetInstance()->current_test_info()->name() + ".model";
  write_vocabulary(
      train_sentencepiece(sample, {.size = 18, .model = SentencePieceModel::kBpe, .byte_fallback = false}),
      path);
  return path;
}

TEST(Bleu, ScoresBytesThatAreNoUtf8) {
  const std::vector<std::string> broken = {"\xff\xfe caf\xc3"};
  const std::string model = model_of_pieces();
  for (const std::string& name : bleu_tokenizer_names()) {
    const BleuOptions options{.tokenizer = *bleu_tokenizer_named(name), .tokenizer_model = model};
    EXPECT_GT(corpus_bleu(broken, {broken}, options).matches[0], 0) << name;
  }
}

TEST(Bleu, TakesThePiecesOfAModelForWords) {
  const std::string model = model_of_pieces();
  const auto pieces = read_pieces(BleuTokenizer::kFlores200, model);
  const std::string tokens = bleu_tokenize("the caß ", BleuTokenizer::kFlores200, pieces.get());
  EXPECT_THAT(tokens, ::testing::StartsWith("\u2581"));
  EXPECT_THAT(tokens, ::testing::EndsWith(" ß")) << "what the model does not know stays";
  const auto metric = make_bleu({.tokenizer = BleuTokenizer::kSpm, .tokenizer_model = model});
  EXPECT_THAT(signature_of(*metric, 1).to_string(), ::testing::HasSubstr("|tok:flores101|"));
  EXPECT_THAT(failure([] { read_pieces(BleuTokenizer::kSpm, "no.model"); }),
              ::testing::HasSubstr("no.model"));
  ASSERT_EQ(::setenv("SACREBLEU", "/nowhere", 1), 0);
  EXPECT_THAT(failure([] { read_pieces(BleuTokenizer::kFlores200, ""); }, ErrorKind::kUsage),
              ::testing::StartsWith("-tok flores200: its model is not here; download https://"));
  ::unsetenv("SACREBLEU");
}

TEST(Bleu, RefusesOtherNumbersOfLines) {
  EXPECT_EQ(failure(
                [] {
                  corpus_bleu(kCat, {kCat, {"a", "b"}});
                },
                ErrorKind::kUsage),
            "the hypothesis has 1 lines, reference 2 has 2; line i of each is for the same sentence");
}

TEST(Bleu, SignatureSaysHowItWasComputed) {
  const BleuOptions options = {.tokenizer = BleuTokenizer::kIntl,
                               .smoothing = BleuSmoothing::kFloor,
                               .smooth_value = 0.25,
                               .lowercase = true,
                               .effective_order = true};
  EXPECT_THAT(signature_of(*make_bleu(options), 2).to_string(),
              ::testing::StartsWith("nrefs:2|case:lc|eff:yes|tok:intl|smooth:floor[0.25]|version:2.6.0"));
  EXPECT_THAT(signature_of(*make_bleu({}), 1).to_string(true),
              ::testing::StartsWith("#:1|c:mixed|e:no|tok:13a|s:exp|v:2.6.0"));
}

TEST(Bleu, KnowsLinesThatLookTokenised) {
  const std::vector<std::string> lines = {"it is .", "it is.", ".", " ."};
  EXPECT_EQ(tokenized_lines(lines), 2);
}

std::string tokens(std::string_view line, BleuTokenizer tokenizer) {
  return collapse_white_space(bleu_tokenize(line, tokenizer));
}

TEST(BleuTokenizer, Of13aSeparatesAsciiPunctuationButNotInNumbers) {
  EXPECT_EQ(tokens("\"It's\" 3.5%, or 1,000.", BleuTokenizer::k13a), "\" It's \" 3.5 % , or 1,000 .");
  EXPECT_EQ(tokens("1990-2000 x-y -5", BleuTokenizer::k13a), "1990 - 2000 x-y -5");
  EXPECT_EQ(tokens("a...b 5.", BleuTokenizer::k13a), "a . . . b 5 .");
  EXPECT_EQ(tokens("&quot;&amp;lt;<skipped>", BleuTokenizer::k13a), "\" <");
  EXPECT_EQ(tokens("„so“ sagt’s", BleuTokenizer::k13a), "„so“ sagt’s");
}

TEST(BleuTokenizer, OfIntlSeparatesPunctuationAndSymbolsOfAllScripts) {
  EXPECT_EQ(tokens("„so“ sagt’s: 5€, 3.5 или ½.", BleuTokenizer::kIntl),
            "„ so “ sagt ’ s : 5 € , 3.5 или ½.");
  EXPECT_EQ(tokens("in 2019.", BleuTokenizer::kIntl), "in 2019.");
  EXPECT_EQ(tokens("&quot;", BleuTokenizer::kIntl), "& quot ;");
  EXPECT_EQ(tokens("a\U0001FAE9b", BleuTokenizer::kIntl), "a \U0001FAE9 b") << "a symbol of Unicode 16";
}

TEST(BleuTokenizer, OfCharMakesEveryCharacterAToken) {
  EXPECT_EQ(tokens("Öl é 語", BleuTokenizer::kChar), "Ö l é 語");
}

TEST(BleuTokenizer, OfZhSeparatesIdeographsAndFullWidthForms) {
  EXPECT_EQ(tokens("我有3.5个apples。", BleuTokenizer::kZh), "我 有 3.5 个 apples 。");
  EXPECT_EQ(tokens("“a”", BleuTokenizer::kZh), "“ a ”") << "what sacreBLEU takes for ideographs";
}

TEST(BleuTokenizer, OfNoneLeavesWords) { EXPECT_EQ(tokens(" a,b  c. ", BleuTokenizer::kNone), "a,b c."); }

}  // namespace
}  // namespace mtf
