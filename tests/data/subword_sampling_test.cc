#include "data/vocabulary/subword_sampling.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>

#include "data/vocabulary/byte_vocabulary.h"
#include "data/vocabulary/extra_ids.h"
#include "data/vocabulary/hugging_face_vocabulary.h"
#include "data/vocabulary/marian_vocabulary.h"
#include "data/vocabulary/sentencepiece_vocabulary.h"
#include "tests/data/written_model.h"

namespace mtf {
namespace {

using Pieces = std::vector<std::string>;
using Distribution = std::map<Pieces, double>;
using ModelFile = SentencePieceModelFile;
using enum ModelFile::PieceType;

constexpr int64_t kDrawn = 10000;

const SubwordSampling kTenth{SegmentationKind::kUnigram, 0.1};
const SubwordSampling kDropTenth{SegmentationKind::kMerges, 0.1};

SubwordSampling dropout(double probability) { return {SegmentationKind::kMerges, probability}; }

Draws draws_of(int64_t example, int64_t epoch = 0) { return {random_key("test", 7), example, epoch}; }

Pieces drawn_pieces(const Vocabulary& vocabulary, const SubwordSampler& sampler, std::string_view text,
                    int64_t example) {
  Draws draws = draws_of(example);
  Pieces pieces;
  for (const int32_t id : sampler.encode(text, draws)) pieces.push_back(vocabulary.piece(id));
  return pieces;
}

/// Draws segmentations of the text and compares their numbers with what is expected, by chi-square: a deviation as large as
/// the limit has a probability of less than 1 in 100,000.
void expect_distribution(const Vocabulary& vocabulary, const SubwordSampling& sampling, std::string_view text,
                         const Distribution& expected) {
  const auto sampler = vocabulary.sampler(sampling);
  ASSERT_NE(sampler, nullptr);
  std::map<Pieces, int64_t> counts;
  for (int64_t i = 0; i < kDrawn; ++i) ++counts[drawn_pieces(vocabulary, *sampler, text, i)];
  double sum = 0, chi_square = 0, rare = 0, rare_count = 0;
  int cells = 0;
  const auto add = [&](double count, double mean) {
    chi_square += (count - mean) * (count - mean) / mean;
    ++cells;
  };
  for (const auto& [pieces, probability] : expected) {
    sum += probability;
    const double mean = probability * kDrawn;
    const auto count = static_cast<double>(counts[pieces]);
    if (mean < 5) {
      rare += mean;
      rare_count += count;
    } else {
      add(count, mean);
    }
  }
  if (rare > 1) add(rare_count, rare);
  EXPECT_NEAR(sum, 1, 1e-9);
  for (const auto& [pieces, count] : counts)
    EXPECT_TRUE(expected.contains(pieces)) << fmt::format("{}", fmt::join(pieces, " "));
  const double freedom = cells - 1;
  EXPECT_GT(cells, 3);
  EXPECT_LT(chi_square, freedom + 4.5 * std::sqrt(2 * freedom) + 10) << cells << " cells";
}

/// The probabilities in proportion to P^alpha of all ways to spell a text in pieces that have these scores.
Distribution all_segmentations(const std::string& text, const std::map<std::string, double>& scores,
                               double alpha) {
  Distribution result;
  double total = 0;
  Pieces pieces;
  const std::function<void(size_t, double)> spell = [&](size_t begin, double score) {
    if (begin == text.size()) {
      total += result[pieces] = std::exp(alpha * score);
      return;
    }
    for (size_t end = begin + 1; end <= text.size(); ++end) {
      const auto piece = scores.find(text.substr(begin, end - begin));
      if (piece == scores.end()) continue;
      pieces.push_back(piece->first);
      spell(end, score + piece->second);
      pieces.pop_back();
    }
  };
  spell(0, 0);
  for (auto& [segmentation, weight] : result) weight /= total;
  return result;
}

/// Algorithm 1 of Provilkov et al.: what becomes of `symbols` where each possible merge is left out with probability p
/// whenever the one of the least rank, at its first place, is chosen.
Distribution all_merges(const Pieces& symbols,
                        const std::function<std::optional<int>(const std::string&, const std::string&)>& rank,
                        double p) {
  static_assert(std::numeric_limits<double>::is_iec559);
  std::vector<std::pair<int, size_t>> merges;
  for (size_t i = 0; i + 1 < symbols.size(); ++i) {
    if (const auto found = rank(symbols[i], symbols[i + 1])) merges.emplace_back(*found, i);
  }
  std::ranges::sort(merges);
  Distribution result;
  double left = 1;  // all merges before this one are left out
  for (const auto& [of_merge, i] : merges) {
    Pieces merged = symbols;
    merged[i] += merged[i + 1];
    merged.erase(merged.begin() + static_cast<ptrdiff_t>(i) + 1);
    for (const auto& [pieces, probability] : all_merges(merged, rank, p))
      result[pieces] += left * (1 - p) * probability;
    left *= p;
  }
  result[symbols] += left;
  return result;
}

std::map<std::string, double> small_scores() {
  return {{"▁", -2.5}, {"a", -2},   {"b", -2.5},   {"ab", -3}, {"▁a", -3.5},
          {"ba", -4},  {"aba", -5}, {"▁ab", -4.5}, {"bb", -5}};
}

ModelFile small_sampled_model(ModelFile::Algorithm algorithm) {
  ModelFile model{.pieces = {{"<unk>", 0, kUnknown}, {"</s>", 0, kControl}},
                  .algorithm = algorithm,
                  .normalization = "identity"};
  for (const auto& [piece, score] : small_scores())
    model.pieces.push_back({piece, static_cast<float>(score)});
  return model;
}

TEST(SubwordSampling, UnigramSegmentationsHaveProbabilitiesInProportionToTheirPowers) {
  const SentencePieceVocabulary vocabulary(written_model(small_sampled_model(ModelFile::Algorithm::kUnigram)),
                                           "test");
  for (const double alpha : {0.1, 0.5, 2.0})
    expect_distribution(vocabulary, {SegmentationKind::kUnigram, alpha}, "ababa",
                        all_segmentations("▁ababa", small_scores(), alpha));
}

TEST(SubwordSampling, WordsAreDrawnIndependently) {
  const SentencePieceVocabulary vocabulary(written_model(small_sampled_model(ModelFile::Algorithm::kUnigram)),
                                           "test");
  Distribution expected;
  const Distribution first = all_segmentations("▁ab", small_scores(), 0.5),
                     second = all_segmentations("▁aa", small_scores(), 0.5);
  for (const auto& [a, p] : first) {
    for (const auto& [b, q] : second) {
      Pieces both = a;
      both.insert(both.end(), b.begin(), b.end());
      expected[both] = p * q;
    }
  }
  expect_distribution(vocabulary, {SegmentationKind::kUnigram, 0.5}, "ab aa", expected);
}

TEST(SubwordSampling, PiecesAcrossWordsAreDrawnFromTheWholeText) {
  ModelFile model = small_sampled_model(ModelFile::Algorithm::kUnigram);
  model.pieces.push_back({"b▁a", -4});
  std::map<std::string, double> scores = small_scores();
  scores["b▁a"] = -4;
  expect_distribution(SentencePieceVocabulary(written_model(model), "test"),
                      {SegmentationKind::kUnigram, 0.5}, "ab ab", all_segmentations("▁ab▁ab", scores, 0.5));
}

TEST(SubwordSampling, UnknownCharactersCostAsInTheLibrary) {
  std::map<std::string, double> scores = small_scores();
  const SentencePieceVocabulary vocabulary(written_model(small_sampled_model(ModelFile::Algorithm::kUnigram)),
                                           "test");
  scores["x"] = -5 - 10;  // the least score less 10
  Distribution expected;
  for (const auto& [pieces, probability] : all_segmentations("▁abx", scores, 0.5)) {
    Pieces with_unknown = pieces;
    std::ranges::replace(with_unknown, "x", "<unk>");
    expected[with_unknown] = probability;
  }
  expect_distribution(vocabulary, {SegmentationKind::kUnigram, 0.5}, "abx", expected);
}

TEST(SubwordSampling, MergesOfSentencePieceAreLeftOut) {
  const SentencePieceVocabulary vocabulary(written_model(small_sampled_model(ModelFile::Algorithm::kBpe)),
                                           "test");
  const std::map<std::string, double> scores = small_scores();
  const auto rank = [&](const std::string& left, const std::string& right) {
    const auto merged = scores.find(left + right);
    return merged == scores.end() ? std::nullopt : std::optional(static_cast<int>(-10 * merged->second));
  };
  for (const double p : {0.1, 0.5})
    expect_distribution(vocabulary, dropout(p), "abaabb",
                        all_merges({"▁", "a", "b", "a", "a", "b", "b"}, rank, p));
}

nlohmann::json byte_pairs() {
  return nlohmann::json::parse(R"({
    "added_tokens": [{"id": 8, "content": "<s>", "special": true}, {"id": 9, "content": "</s>", "special": true}],
    "normalizer": null,
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false},
    "decoder": {"type": "ByteLevel"},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2, "ab": 3, "bc": 4, "abc": 5, "ca": 6, "abca": 7},
              "merges": ["a b", "b c", "ab c", "c a", "abc a"]}
  })");
}

TEST(SubwordSampling, MergesOfHuggingFaceAreLeftOut) {
  const HuggingFaceVocabulary vocabulary(byte_pairs().dump(), "test", {.begin = "<s>", .end = "</s>"});
  const std::map<std::pair<std::string, std::string>, int> ranks = {
      {{"a", "b"}, 0}, {{"b", "c"}, 1}, {{"ab", "c"}, 2}, {{"c", "a"}, 3}, {{"abc", "a"}, 4}};
  const auto rank = [&](const std::string& left, const std::string& right) {
    const auto found = ranks.find({left, right});
    return found == ranks.end() ? std::nullopt : std::optional(found->second);
  };
  for (const double p : {0.1, 0.4})
    expect_distribution(vocabulary, dropout(p), "abcabca",
                        all_merges({"a", "b", "c", "a", "b", "c", "a"}, rank, p));
  EXPECT_EQ(vocabulary.sampler(kTenth), nullptr);
}

std::vector<std::string> lines_of(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

/// Every drawn text is decoded as the one whose tokens are not drawn; other examples and epochs have other tokens.
void expect_same_texts(const Vocabulary& vocabulary, const SubwordSampling& sampling,
                       const std::vector<std::string>& texts) {
  const auto sampler = vocabulary.sampler(sampling);
  ASSERT_NE(sampler, nullptr);
  int64_t others = 0;
  for (size_t i = 0; i < texts.size(); ++i) {
    Draws first = draws_of(static_cast<int64_t>(i)), again = draws_of(static_cast<int64_t>(i)),
          next = draws_of(static_cast<int64_t>(i), 1);
    const std::vector<int32_t> ids = sampler->encode(texts[i], first);
    EXPECT_EQ(vocabulary.decode(ids), vocabulary.decode(vocabulary.encode(texts[i])));
    EXPECT_EQ(ids, sampler->encode(texts[i], again));
    others += ids != sampler->encode(texts[i], next);
  }
  EXPECT_GT(others, std::ssize(texts) / 5);
}

const std::string kGolden = MTF_SOURCE_DIR "/tests/golden/";

TEST(SubwordSampling, DrawnTokensHaveTheTextOfTheOthers) {
  const std::vector<std::string> texts = {"abab  ba ab",
                                          "",
                                          " x",
                                          "ab<extra_id_1>ba bab",
                                          "ba▁ab",
                                          "aab\nbba",
                                          "\xff"
                                          "ab"};
  for (const auto algorithm : {ModelFile::Algorithm::kUnigram, ModelFile::Algorithm::kBpe}) {
    const bool unigram = algorithm == ModelFile::Algorithm::kUnigram;
    const auto vocabulary = with_extra_ids(
        std::make_unique<SentencePieceVocabulary>(written_model(small_sampled_model(algorithm)), "test"), 2);
    expect_same_texts(*vocabulary, unigram ? kTenth : dropout(0.5), texts);
    EXPECT_EQ(vocabulary->sampler(unigram ? kDropTenth : kTenth), nullptr);
  }
  const auto marian = read_marian_vocabulary(kGolden + "hf_marian/source.spm",
                                             read_marian_tokens(kGolden + "hf_marian/vocab.json"), {});
  expect_same_texts(*marian, kTenth, lines_of(kGolden + "hf_marian/inputs.txt"));
  const nlohmann::json lines = nlohmann::json::parse(std::ifstream(kGolden + "hf_tokenizers/texts.json"));
  const auto llama =
      read_hugging_face_vocabulary(kGolden + "hf_tokenizers/llama2.json", {.begin = "<s>", .end = "</s>"});
  expect_same_texts(*llama, kDropTenth, lines.get<std::vector<std::string>>());
}

TEST(SubwordSampling, WithoutDropoutTokensAreNotDrawn) {
  const SentencePieceVocabulary pieces(written_model(small_sampled_model(ModelFile::Algorithm::kBpe)),
                                       "test");
  const HuggingFaceVocabulary pairs(byte_pairs().dump(), "test", {.begin = "<s>", .end = "</s>"});
  for (const Vocabulary* vocabulary :
       {static_cast<const Vocabulary*>(&pieces), static_cast<const Vocabulary*>(&pairs)}) {
    for (const char* text : {"abababba", "abcabcabc", "bbabba", ""}) {
      Draws draws = draws_of(0);
      EXPECT_EQ(vocabulary->sampler(dropout(0))->encode(text, draws), vocabulary->encode(text)) << text;
    }
  }
}

TEST(SubwordSampling, WhereAllMergesAreLeftOutCharactersRemain) {
  const SentencePieceVocabulary vocabulary(written_model(small_sampled_model(ModelFile::Algorithm::kBpe)),
                                           "test");
  EXPECT_EQ(drawn_pieces(vocabulary, *vocabulary.sampler(dropout(1)), "abba", 0),
            (Pieces{"▁", "a", "b", "b", "a"}));
}

TEST(SubwordSampling, MergesLeavePiecesOfAUserWhole) {
  ModelFile model = small_sampled_model(ModelFile::Algorithm::kBpe);
  model.pieces.push_back({"abb", 0, kUserDefined});
  const SentencePieceVocabulary vocabulary(written_model(model), "test");
  const auto sampler = vocabulary.sampler(dropout(0.9));
  for (int64_t i = 0; i < 20; ++i)
    EXPECT_THAT(drawn_pieces(vocabulary, *sampler, "aabba", i), ::testing::Contains("abb"));
}

TEST(SubwordSampling, BytesHaveNothingToDraw) {
  EXPECT_EQ(ByteVocabulary().sampler(kTenth), nullptr);
  EXPECT_EQ(ByteVocabulary().sampler(kDropTenth), nullptr);
}

}  // namespace
}  // namespace mtf
