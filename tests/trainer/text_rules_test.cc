// Tests the rules on texts that are written: by their definitions, and in the texts of a model.
#include "trainer/decode/text_rules.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <set>

#include "data/vocabulary/byte_vocabulary.h"
#include "tests/support/failure.h"
#include "tests/trainer/decode_testing.h"
#include "trainer/decode/batch_decoder.h"

namespace mtf::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr float kNever = -std::numeric_limits<float>::infinity();
/// More than there are candidates, while texts are short.
constexpr int64_t kManyWords = 200;

/// True if the last `n` tokens are also elsewhere in `text`.
bool ends_in_repetition(const std::vector<int32_t>& text, size_t n) {
  if (text.size() < n) return false;
  const auto first = std::ranges::search(text, std::span(text).last(n)).begin();
  return first != text.end() - static_cast<ptrdiff_t>(n);
}

TEST(TextRules, NoSequenceComesTwice) {
  std::mt19937 random(1);
  for (int i = 0; i < 500; ++i) {
    const size_t n = 1 + random() % 4;
    std::vector<int32_t> text(random() % 30);
    for (int32_t& token : text) token = static_cast<int32_t>(2 + random() % 4);
    std::vector<float> log_probs(7, -1);
    TextRules({.no_repeat_ngram_size = static_cast<int64_t>(n)}, nullptr).apply(text, 0, {}, log_probs);
    for (int32_t token = 0; token < std::ssize(log_probs); ++token) {
      std::vector<int32_t> longer = text;
      longer.push_back(token);
      EXPECT_EQ(log_probs[static_cast<size_t>(token)] == kNever, ends_in_repetition(longer, n))
          << "text " << i << ", token " << token;
    }
  }
}

TEST(TextRules, LookAtTheTokensOfCandidates) {
  const std::vector<int32_t> text = {5, 6, 7, 5}, tokens = {9, 6, kEosId};
  std::vector<float> log_probs = {-1, -2, -3};
  TextRules({.min_length = 5, .no_repeat_ngram_size = 2}, nullptr).apply(text, 4, tokens, log_probs);
  EXPECT_THAT(log_probs, ElementsAre(-1, kNever, kNever));
  log_probs = {-1, -2, -3};
  TextRules({.min_length = 4}, nullptr).apply(text, 4, tokens, log_probs);
  EXPECT_THAT(log_probs, ElementsAre(-1, -2, -3));
  TextRules({.min_length = 4}, nullptr).apply(text, 3, tokens, log_probs);
  EXPECT_THAT(log_probs, ElementsAre(-1, -2, kNever));
}

TEST(TextRules, TokensOfTheVocabularyEndTexts) {
  const ByteVocabulary bytes;
  const TextRules rules({.min_length = 2, .stop_tokens = {"a", "b"}}, &bytes);
  const int32_t a = bytes.encode("a")[0];
  EXPECT_TRUE(rules.is_end(a) && rules.is_end(a + 1) && rules.is_end(kEosId));
  EXPECT_FALSE(rules.is_end(a + 2) || rules.is_end(kPadId));
  const std::vector<int32_t> text = {9}, tokens = {a, a + 2, kEosId};
  std::vector<float> log_probs = {-1, -2, -3};
  rules.apply(text, 1, tokens, log_probs);
  EXPECT_THAT(log_probs, ElementsAre(kNever, -2, kNever));
  EXPECT_EQ(rules.most_changed(9), 3);
}

TEST(TextRules, ATextEndsWhereNothingElseMayFollow) {
  const std::vector<int32_t> text = {0, 2, 3};
  std::vector<float> log_probs = {-1, -7, -3, -4};
  TextRules({.min_length = 10, .no_repeat_ngram_size = 1}, nullptr).apply(text, 3, {}, log_probs);
  EXPECT_THAT(log_probs, ElementsAre(kNever, -7, kNever, kNever));
}

/// The end of a prompt is none of the text.
TEST(TextRules, ATextMayEndBehindAPromptThatHasEnded) {
  const std::vector<int32_t> text = {3, kEosId, 2};
  std::vector<float> log_probs = {-1, -2, -3, -4};
  TextRules({.no_repeat_ngram_size = 1}, nullptr).apply(text, 1, {}, log_probs);
  EXPECT_THAT(log_probs, ElementsAre(-1, -2, kNever, kNever));
}

TEST(TextRules, PenaltiesCountWhatWasWritten) {
  const SampleMethod method{.presence_penalty = 0.5, .frequency_penalty = 0.25};
  const TextRules rules({.method = method}, nullptr);
  const std::vector<int32_t> text = {4, 4, 2, 3, 3, 3};
  std::vector<float> log_probs(5, -1);
  rules.apply(text, 4, {}, log_probs);
  EXPECT_THAT(log_probs, ElementsAre(-1, -1, -1.75, -2.25, -1));
  EXPECT_EQ(rules.most_changed(9), 9);
  EXPECT_FALSE(TextRules({.method = SampleMethod{}}, nullptr).changes_candidates());
}

/// What HF transformers calls RepetitionPenaltyLogitsProcessor: logits above 0 are divided, others multiplied.
TEST(TextRules, RepetitionsOfAllThatStandsInTheTextAreLessLikely) {
  const TextRules rules({.repetition_penalty = 2}, nullptr);
  const std::vector<int32_t> text = {4, 4, 2, 3};
  std::vector<float> log_probs = {-2, -1, -0.5, -1.5, -3};
  rules.apply(text, 1, {}, log_probs, 1);  // the logits are -1, 0, 0.5, -0.5 and -2
  EXPECT_THAT(log_probs, ElementsAre(-3, -1, -0.75, -2, -5));
  log_probs = {-2, -1, -0.5};
  const std::vector<int32_t> tokens = {5, 4, kPadId};
  rules.apply(text, 1, tokens, log_probs);  // of log-probabilities
  EXPECT_THAT(log_probs, ElementsAre(-2, -2, -1));
  EXPECT_EQ(rules.most_changed(9), 10);
  EXPECT_FALSE(rules.raises());
  EXPECT_TRUE(TextRules({.repetition_penalty = 0.5}, nullptr).raises());
  // What a decoder begins with counts, too.
  log_probs = {-2, -1, -0.5};
  TextRules({.repetition_penalty = 2}, nullptr, kEosId).apply({}, 0, {}, log_probs);
  EXPECT_THAT(log_probs, ElementsAre(-2, -2, -0.5));
}

TEST(TextRules, PenaltiesComeOneAfterTheOther) {
  const SampleMethod method{.presence_penalty = 0.5};
  std::vector<float> log_probs = {-9, -9, -1.5};
  const std::vector<int32_t> text = {2};
  TextRules({.method = method, .repetition_penalty = 4}, nullptr).apply(text, 1, {}, log_probs, 3.5);
  EXPECT_EQ(log_probs[2], 2.0F / 4 - 3.5F - 0.5F);
}

TEST(TextRules, SuppressedTokensAreNeverWritten) {
  const ByteVocabulary bytes;
  const int32_t a = bytes.encode("a")[0], b = bytes.encode("b")[0];
  DecodeOptions options;
  options.suppress_tokens = {bytes.piece(a)};
  const TextRules rules(options, &bytes);
  std::vector<float> log_probs = {-1, -2, -3};
  const std::vector<int32_t> tokens = {a, b, kEosId};
  rules.apply({}, 0, tokens, log_probs);
  EXPECT_THAT(log_probs, ElementsAre(kNever, -2, -3));
  EXPECT_EQ(rules.most_changed(7), 1);
  options.suppress_tokens = {"none"};
  EXPECT_THAT(failure([&] { (void)ids_of_pieces(options.suppress_tokens, bytes); }, ErrorKind::kConfig),
              HasSubstr("the vocabulary has no piece `none`"));
}

TEST(TextRules, TextsStopAtWords) {
  const ByteVocabulary bytes;
  const TextRules rules({.stop = {"##", "ende"}}, &bytes);
  const auto stops = [&](std::string_view given, std::string_view written) {
    return rules.stop(bytes.encode(given), bytes.encode(written));
  };
  EXPECT_FALSE(stops("", ""));
  EXPECT_TRUE(stops("", "a # b ##"));
  EXPECT_TRUE(stops("", "am ende"));
  EXPECT_FALSE(stops("", "am end"));
  EXPECT_FALSE(stops("a ## b ende", ""));
  EXPECT_FALSE(stops("a ## b en", "de"));  // it began in what was given
  EXPECT_TRUE(stops("a ## b ", "ende"));
  EXPECT_TRUE(stops(std::string(200, 'x'), std::string(300, 'y') + "ende"));
  EXPECT_EQ(first_stop("a ende ## b", 0, {"##", "ende"}), 2u);
  EXPECT_EQ(first_stop("a ende ## b", 3, {"##", "ende"}), 7u);
  EXPECT_EQ(first_stop("a ende", 3, {"##", "ende"}), 6u);
}

/// A vocabulary in which the first of some tokens is another text than behind others.
class JoinedWords final : public Vocabulary {
 public:
  int64_t size() const override { return 100; }
  std::vector<int32_t> encode(std::string_view) const override { return {}; }
  std::string decode(std::span<const int32_t> ids) const override {
    std::string text;
    for (const int32_t id : ids) {
      if (id % 2 == 0) text += text.empty() ? "" : " ";
      if (id % 2 != 0 && text.empty()) text += "##";
      text += static_cast<char>('a' + id / 2 % 26);
    }
    return text;
  }
  std::string piece(int32_t) const override { return {}; }
  std::string fingerprint() const override { return {}; }
};

TEST(TextRules, TextsStopAtWhatIsReadAsAWhole) {
  const JoinedWords words;
  const TextRules marks({.stop = {"##"}}, &words), blanks({.stop = {" c"}}, &words);
  std::vector<int32_t> written = {2};
  for (int i = 0; i < 300; ++i) {
    written.push_back(5);
    EXPECT_FALSE(marks.stop({}, written)) << i;
    EXPECT_FALSE(blanks.stop({}, written)) << i;
  }
  written.push_back(4);
  EXPECT_TRUE(blanks.stop({}, written));
  // The blank stands between what was given and what was written.
  const std::vector<int32_t> given = {2, kEosId}, first = {4};
  EXPECT_TRUE(blanks.stop(given, first));
  EXPECT_FALSE(blanks.stop({}, first));
}

TEST(BeamSearch, EndsAHypothesisThatStops) {
  const ByteVocabulary bytes;
  const TextRules rules({.stop = {"xy"}}, &bytes);
  const int32_t x = bytes.encode("x")[0], y = bytes.encode("y")[0], z = bytes.encode("z")[0];
  BeamSearch search({.beam = 2, .length_penalty = 0, .limit = 9, .results = 2, .rules = &rules});
  const std::vector<int32_t> first = {x, y, z, kEosId};
  const std::vector<float> log_probs = {-1, -2, -9, -9.5};
  search.advance({4, log_probs, first});
  EXPECT_FALSE(search.done());
  const std::vector<int32_t> second = {y, x, z, kEosId, y, x, z, kEosId};
  const std::vector<float> both = {-0.1f, -4, -5, -9.5, -0.1f, -5, -9, -9.5};
  search.advance({4, both, second});
  EXPECT_FALSE(search.done());
  EXPECT_THAT(search.text(0), ElementsAre(y, y));
  const std::vector<float> last = {-9, -9, -9, -9, -9, -9, -9, -0.1f};  // the places stay
  search.advance({4, last, second});
  EXPECT_TRUE(search.done());
  ASSERT_EQ(search.results().size(), 2u);
  EXPECT_THAT(search.results()[0].tokens, ElementsAre(x, y));
  EXPECT_THAT(search.results()[1].tokens, ElementsAre(y, y, kEosId));
}

/// As with `forced_eos_token_id` of HF transformers: the last of the tokens at the limit is the end, at no cost.
TEST(BeamSearch, EndsAllTextsAtTheLimitWhereTheEndIsForced) {
  const TextRules rules({.force_end = true}, nullptr);
  BeamSearch search(
      {.beam = 2, .length_penalty = 1, .length_plus = 0, .limit = 3, .results = 3, .rules = &rules});
  const std::vector<int32_t> tokens = {5, 6, kEosId, 7, 5, 6, kEosId, 7};
  const std::vector<float> first = {-1, -2, -9, -9}, second = {-1, -3, -9, -9, -2, -0.5, -9, -9};
  search.advance({4, first, tokens});
  EXPECT_FALSE(search.done());
  search.advance({4, second, tokens});
  EXPECT_TRUE(search.done());
  const std::vector<Hypothesis> results = search.results();
  ASSERT_EQ(results.size(), 2u);
  EXPECT_THAT(results[0].tokens, ElementsAre(5, 5, kEosId));
  EXPECT_THAT(results[1].tokens, ElementsAre(6, 6, kEosId));
  EXPECT_THAT(results[1].log_probs, ElementsAre(-2, -0.5, 0));
  EXPECT_FLOAT_EQ(static_cast<float>(results[1].score), -2.5F / 3);
  // A text of one token is its end.
  BeamSearch shortest({.beam = 2, .limit = 1, .results = 2, .rules = &rules});
  shortest.advance({4, first, tokens});
  EXPECT_TRUE(shortest.done());
  ASSERT_EQ(shortest.results().size(), 1u);
  EXPECT_THAT(shortest.results()[0].tokens, ElementsAre(kEosId));
}

TEST(SampleSearch, EndsTextsAtTheLimitWhereTheEndIsForced) {
  const TextRules rules({.force_end = true}, nullptr);
  SampleSearch search(2, 3, &rules);
  search.advance(std::vector<Draw>{{5, -1}, {6, -2}});
  EXPECT_FALSE(search.done());
  search.advance(std::vector<Draw>{{kEosId, -1}, {7, -2}});
  EXPECT_TRUE(search.done());
  EXPECT_THAT(search.results()[0].tokens, ElementsAre(5, kEosId));
  EXPECT_THAT(search.results()[1].tokens, ElementsAre(6, 7, kEosId));
  EXPECT_EQ(search.results()[1].log_prob, -4);
  SampleSearch shortest(1, 1, &rules);
  shortest.advance(std::vector<Draw>{{5, -1}});
  EXPECT_THAT(shortest.results()[0].tokens, ElementsAre(kEosId));
}

/// Each of three hypotheses may end with each of three tokens, and three others must be left to go on.
TEST(BeamSearch, StaysAsWideWhereSeveralTokensEndTexts) {
  const ByteVocabulary bytes;
  const TextRules rules({.stop_tokens = {"a", "b"}}, &bytes);
  const int32_t a = bytes.encode("a")[0], b = bytes.encode("b")[0];
  BeamSearch search(
      {.beam = 2, .length_penalty = 2, .length_plus = 0, .limit = 9, .results = 2, .rules = &rules});
  const std::vector<int32_t> tokens = {a, b, kEosId, 50, 51, 52};
  const std::vector<float> log_probs = {-1, -1.1f, -1.2f, -2, -3, -4};
  search.advance({6, log_probs, tokens});
  EXPECT_FALSE(search.done());
  EXPECT_EQ(search.places().size(), 2u);
}

TEST(BeamSearch, KeepsItsTextsWhereNothingMayFollow) {
  BeamSearch search({.beam = 2, .length_penalty = 0, .limit = 9, .results = 2});
  const std::vector<int32_t> tokens = {5, 6, 5, 6};
  const std::vector<float> first = {-1, -2}, none(4, kNever);
  search.advance({2, first, tokens});
  search.advance({2, none, tokens});
  EXPECT_TRUE(search.done());
  ASSERT_EQ(search.results().size(), 2u);
  EXPECT_THAT(search.results()[0].tokens, ElementsAre(5));
}

class RuledTexts : public ::testing::TestWithParam<DecodeOptions> {};
INSTANTIATE_TEST_SUITE_P(
    Methods, RuledTexts,
    ::testing::Values(DecodeOptions{.beam_size = 3, .n_best = 3}, DecodeOptions{.method = GreedyMethod{}},
                      DecodeOptions{.method = SampleMethod{.samples = 2}},
                      DecodeOptions{.method = SampleMethod{.min_p = 0.02, .frequency_penalty = 0.5}},
                      DecodeOptions{.method = SampleMethod{.top_k = 7, .presence_penalty = 1, .samples = 2}},
                      DecodeOptions{.method = SampleMethod{.top_k = 3, .presence_penalty = -2}},
                      DecodeOptions{.beam_size = 3, .force_end = true, .n_best = 3},
                      DecodeOptions{.method = GreedyMethod{}, .force_end = true},
                      DecodeOptions{.method = SampleMethod{.top_k = 5}, .force_end = true, .n_best = 3},
                      DecodeOptions{.beam_size = 3, .repetition_penalty = 1.5},
                      DecodeOptions{.beam_size = 2, .repetition_penalty = 0.8},
                      DecodeOptions{.method = GreedyMethod{}, .repetition_penalty = 1.5},
                      DecodeOptions{.method = SampleMethod{.top_k = 7, .samples = 2},
                                    .repetition_penalty = 1.3}));

/// A model that would repeat itself, and end some texts early.
DecodeRun repeating_model(const Layouts& layouts = Layouts::single()) {
  DecodeRun run(
      "{type: lm, d_model: 16, num_layers: 1, max_length: 200, vocab_divisor: 8, block: [SelfAttention: "
      "{num_heads: 2, key_value_size: 16}, DenseReluDense: {hidden_size: 16}]}",
      kManyWords, layouts);
  run.set_varied(1.5);
  return run;
}

/// Beside the first one, which is long, samples are drawn from all tokens; alone, the others are drawn from a few.
std::vector<GivenText> ruled_texts() {
  std::vector<GivenText> texts = {{.inputs = {}, .prefix = {}, .prompt = 160, .limit = 30, .number = 99}};
  for (int32_t i = 0; i < texts[0].prompt; ++i) texts[0].prefix.push_back(2 + i * i % 190);
  for (int32_t i = 0; i < 12; ++i) {
    texts.push_back({.inputs = {},
                     .prefix = {2 + i, 9, 20 - i, 2 + i},
                     .prompt = 4,
                     .limit = 40 + i,
                     .number = static_cast<uint64_t>(i)});
  }
  return texts;
}

/// Caches grow three times while these texts are written, and with them the number of candidates.
TEST_P(RuledTexts, FollowTheRulesInAnyBatchOnAnyLayout) {
  DecodeOptions options = GetParam(), free = options;
  options.min_length = 15;
  options.no_repeat_ngram_size = 2;
  const std::vector<GivenText> texts = ruled_texts();
  DecodeRun run = repeating_model();
  const std::vector<Written> written = run.decode(texts, options);
  std::set<size_t> lengths;
  for (size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(std::ssize(written[i]), options.is_beam() ? options.n_best : options.hypotheses());
    for (const Hypothesis& hypothesis : written[i]) {
      std::vector<int32_t> text = texts[i].prefix;
      for (const int32_t token : hypothesis.tokens) {
        text.push_back(token);
        EXPECT_FALSE(ends_in_repetition(text, 2)) << "text " << i;
      }
      const bool ended = hypothesis.tokens.back() == kEosId;
      EXPECT_TRUE(ended || !options.force_end);
      EXPECT_LE(std::ssize(hypothesis.tokens), texts[i].limit);
      EXPECT_GE(std::ssize(hypothesis.tokens), ended ? 16 : texts[i].limit);
    }
  }
  const std::vector<Written> freely = run.decode(texts, free);
  size_t different = 0;
  for (size_t i = 0; i < texts.size(); ++i) different += freely[i][0].tokens != written[i][0].tokens;
  EXPECT_GT(different, 0u);

  for (size_t i = 0; i < texts.size(); ++i)
    expect_equal_texts(run.decode({texts[i]}, options), {written[i]}, 1e-5);
  for (const auto& [mesh, layout] : {std::pair("x:2", "batch:x"), std::pair("x:2", "vocab:x;heads:x"),
                                     std::pair("x:2;y:2", "batch:x;vocab:y")}) {
    SCOPED_TRACE(fmt::format("{} on {}", layout, mesh));
    expect_equal_texts(repeating_model(layouts(mesh, layout)).decode(texts, options), written, 1e-4);
  }
}

/// The program hands over as many candidates as may be needed: the texts are those that all tokens give.
TEST(RuledTexts, FewCandidatesAreEnough) {
  DecodeRun run = repeating_model();
  for (const int64_t n : {1, 2, 3}) {
    SCOPED_TRACE(n);
    DecodeOptions few{.method = GreedyMethod{}, .min_length = 20, .no_repeat_ngram_size = n}, all = few;
    all.method = SampleMethod{.temperature = 0};
    expect_equal_texts(run.decode(ruled_texts(), few), run.decode(ruled_texts(), all), 1e-5);
    few.repetition_penalty = all.repetition_penalty = n == 1 ? 0.7 : 1 + 0.3 * static_cast<double>(n);
    expect_equal_texts(run.decode(ruled_texts(), few), run.decode(ruled_texts(), all), 1e-5);
  }
}

}  // namespace
}  // namespace mtf::testing
