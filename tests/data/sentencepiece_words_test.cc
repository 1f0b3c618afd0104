// Encoding word by word gives the ids of the library for whole texts.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <thread>
#include <unordered_map>

#include "data/vocabulary/piece_lattice.h"
#include "data/vocabulary/sentencepiece_model.h"
#include "data/vocabulary/sentencepiece_vocabulary.h"
#include "data/vocabulary/word_cache.h"
#include "tests/data/library_model.h"
#include "tests/data/made_up_texts.h"
#include "tests/data/written_model.h"

namespace mtf {
namespace {

using ModelFile = SentencePieceModelFile;
using enum ModelFile::PieceType;
using ::testing::ElementsAre;
using ::testing::Optional;

ModelFile small_model(ModelFile::Algorithm algorithm = ModelFile::Algorithm::kUnigram) {
  return {.pieces = {{"<unk>", 0, kUnknown},
                     {"</s>", 0, kControl},
                     {"▁", -3},
                     {"a", -2},
                     {"aa", -3},
                     {"▁a", -4.5},
                     {"ab", -2.5},
                     {"b", -2.25},
                     {"ä", -5}},
          .algorithm = algorithm,
          .normalization = "identity"};
}

/// A model of made-up texts with numbers, tags and marks.
std::string trained_model(std::unordered_map<std::string, std::string> options) {
  std::vector<std::string> texts = made_up_texts(500);
  std::mt19937 random(11);
  for (std::string& text : texts) {
    for (int i = 0; i < 3; ++i)
      text += ' ' + std::string(1 + random() % 3, static_cast<char>('0' + random() % 2));
    text += " <tag>e\u0301";
  }
  options.emplace("vocab_size", "200");
  return library_model(std::move(texts), std::move(options));
}

/// A text out of parts that are words, blanks of many kinds, marks that join with what is before them, and
/// others that are hard to normalise.
std::string random_text(std::mt19937& random, const std::vector<std::string>& words) {
  static const std::vector<std::string> kParts = {
      " ",      " ",        " ",      " ",        " ",
      " ",      "  ",       "   ",    "\t",       "\n",
      "\u3000", "\u00A0",   "\u2009", "\u0301",   "\u0308\u0301",
      "¨",      "\u0385",   "▁",      " ▁",       "▁ ",
      "▁▁",     "ﬁ",        "²",      "Ａ",       "日本",
      "語 ",    "😀",        "\x01",   "\x7f",     std::string(1, '\0'),
      "\xff",   "\xe2\x96", "\xc3",   "1",        "11",
      "111",    "1111111",  "<tag>",  "<unk>",    "</s>",
      "ß",      "Ä",        "über",   "صلى الله", "\u200b",
      "\u00ad", "a.",       "!",      "-",        "\r\n",
      "\n\n",   " \n",      "\n ",    "ha\nus"};
  std::string text;
  const bool is_plain = random() % 2 == 0;
  for (uint32_t left = random() % 40; left > 0; --left) {
    if (is_plain || random() % 2 == 0) {
      text += words[random() % words.size()] + ' ';
    } else {
      text += kParts[random() % kParts.size()];
    }
    if (random() % 16 == 0) text += random_unicode(random);
  }
  return text;
}

void expect_same_ids(const std::string& model, const std::vector<std::string>& words, int rounds,
                     const std::string& what) {
  const SentencePieceVocabulary vocabulary(model, "test.model");
  std::mt19937 random(12);
  for (int round = 0; round < rounds; ++round) {
    const std::string text = random_text(random, words);
    ASSERT_EQ(vocabulary.encode(text), vocabulary.encode_at_once(text))
        << what << ": " << ::testing::PrintToString(text);
  }
}

/// Random words of few letters; the same ones come again and again.
std::vector<std::string> random_words(const std::vector<std::string>& alphabet) {
  std::mt19937 random(13);
  std::vector<std::string> words(200);
  for (std::string& word : words) {
    for (uint32_t left = 1 + random() % 8; left > 0; --left) word += alphabet[random() % alphabet.size()];
  }
  return words;
}

std::vector<std::string> words_of_made_up_texts() {
  std::vector<std::string> words = random_words({"0", "1"});
  for (const std::string& text : made_up_texts(30)) words.push_back(text);
  return words;
}

bool words_are_apart_in(const std::string& model) {
  const auto file = parse_sentencepiece_model(model);
  return file && words_are_apart(*file);
}

TEST(SentencePieceWords, TrainedModelsEncodeWordsAsTheyEncodeTexts) {
  const std::vector<std::string> words = words_of_made_up_texts();
  for (const std::string type : {"unigram", "bpe"}) {
    for (const std::string rules : {"nmt_nfkc", "nmt_nfkc_cf", "nfkc", "nfkc_cf", "identity"}) {
      const std::string model = trained_model({{"model_type", type}, {"normalization_rule_name", rules}});
      EXPECT_TRUE(words_are_apart_in(model));
      expect_same_ids(model, words, 500, type + " " + rules);
    }
    for (const auto& [name, value] :
         std::vector<std::pair<std::string, std::string>>{{"byte_fallback", "true"},
                                                          {"remove_extra_whitespaces", "false"},
                                                          {"user_defined_symbols", "<tag>,um,\u0301"},
                                                          {"user_defined_symbols", "\n"},
                                                          {"user_defined_symbols", "ha\nus"},
                                                          {"split_by_number", "false"}}) {
      const std::string model = trained_model(
          {{"model_type", type}, {"vocab_size", "450"}, {"hard_vocab_limit", "false"}, {name, value}});
      EXPECT_TRUE(words_are_apart_in(model)) << type << " " << name;
      expect_same_ids(model, words, 500, type + " " + name);
    }
  }
}

TEST(SentencePieceWords, ModelsWhoseWordsDependOnEachOtherEncodeTextsAtOnce) {
  const std::vector<std::string> words = words_of_made_up_texts();
  for (const std::string type : {"unigram", "bpe"}) {
    for (const auto& [name, value] :
         std::vector<std::pair<std::string, std::string>>{{"add_dummy_prefix", "false"},
                                                          {"treat_whitespace_as_suffix", "true"},
                                                          {"split_by_whitespace", "false"},
                                                          {"user_defined_symbols", "ha▁us"}}) {
      const std::string model = trained_model({{"model_type", type}, {name, value}});
      EXPECT_FALSE(words_are_apart_in(model)) << type << " " << name;
      expect_same_ids(model, words, 100, type + " " + name);
    }
  }
  for (const std::string type : {"word", "char"}) {
    const std::string model = trained_model({{"model_type", type}, {"hard_vocab_limit", "false"}});
    EXPECT_FALSE(words_are_apart_in(model)) << type;
    expect_same_ids(model, words, 100, type);
  }
}

TEST(SentencePieceWords, EverySettingThatJoinsWordsIsSeen) {
  EXPECT_TRUE(words_are_apart_in(written_model(small_model())));
  EXPECT_TRUE(words_are_apart_in(written_model(small_model(ModelFile::Algorithm::kBpe))));
  const std::vector<std::pair<std::string, std::function<void(ModelFile&)>>> changes = {
      {"rules", [](ModelFile& model) { model.normalization = "user_defined"; }},
      {"no name", [](ModelFile& model) { model.normalization.clear(); }},
      {"suffixes", [](ModelFile& model) { model.blanks_are_suffixes = true; }},
      {"front", [](ModelFile& model) { model.adds_blank_in_front = false; }},
      {"two pieces", [](ModelFile& model) { model.pieces[1].text = "▁"; }},
      {"escapes", [](ModelFile& model) { model.escapes_blanks = false; }},
      {"piece of two words", [](ModelFile& model) { model.pieces[5].text = "a▁a"; }},
      {"two blanks", [](ModelFile& model) { model.pieces[5].text = "▁▁"; }},
      {"plain blank",
       [](ModelFile& model) {
         model.pieces[5] = {" b", 0, kUserDefined};
       }},
      {"zero", [](ModelFile& model) { model.pieces[5].text = std::string("a\0b", 3); }},
      {"half a character",
       [](ModelFile& model) {
         model.pieces[5] = {"b\xe2", 0, kUserDefined};
       }},
      {"no piece for blanks", [](ModelFile& model) { model.pieces[2].text = "c"; }},
      {"blanks unused", [](ModelFile& model) { model.pieces[2].type = kUnused; }},
      {"words", [](ModelFile& model) { model.algorithm = ModelFile::Algorithm::kWord; }},
      {"characters", [](ModelFile& model) { model.algorithm = ModelFile::Algorithm::kCharacter; }},
      {"score above 0", [](ModelFile& model) { model.pieces[5].score = 1; }},
      {"no number", [](ModelFile& model) { model.pieces[5].score = std::nanf(""); }},
      {"unused piece of BPE",
       [](ModelFile& model) {
         model.algorithm = ModelFile::Algorithm::kBpe;
         model.pieces[5].type = kUnused;
       }},
  };
  const std::vector<std::string> words = random_words({"a", "b", "ä", "c"});
  for (const auto& [what, change] : changes) {
    ModelFile model = small_model();
    change(model);
    EXPECT_FALSE(words_are_apart_in(written_model(model))) << what;
    if (what == "zero") continue;  // the library refuses it
    expect_same_ids(written_model(model), words, 100, what);
  }
  EXPECT_EQ(parse_sentencepiece_model("This is a text, and no model."), std::nullopt);
}

/// Pieces of up to four letters out of three, whose scores differ by little from sums of others.
ModelFile random_model(std::mt19937& random, ModelFile::Algorithm algorithm) {
  ModelFile model = small_model(algorithm);
  model.pieces.resize(3);
  const std::vector<std::string> alphabet = {"a", "b", "ä"};
  std::map<std::string, float> scores;
  for (const std::string& letter : alphabet)
    scores[letter] = -1.F - static_cast<float>(random() % 1000) / 999;
  const float differences[] = {0, 1e-7F, 1e-6F, 1e-5F, 1e-4F, 1e-3F};
  for (int i = 0; i < 30; ++i) {
    std::string piece = random() % 4 == 0 ? "▁" : "";
    float score = piece.empty() ? 0.F : -3.F;
    for (uint32_t left = 2 + random() % 3; left > 0; --left) {
      const std::string& letter = alphabet[random() % alphabet.size()];
      piece += letter;
      score += scores[letter];
    }
    scores.try_emplace(
        piece, std::min(0.F, score + differences[random() % 6] * static_cast<float>(random() % 7 - 3)));
  }
  for (const auto& [text, score] : scores) {
    const uint32_t kind = random() % 20;
    model.pieces.push_back({text, score, kind == 0 ? kUserDefined : kind == 1 ? kUnused : kNormal});
  }
  return model;
}

TEST(SentencePieceWords, RoundingDecidesBetweenSegmentationsAsInTheWholeText) {
  std::mt19937 random(14);
  const std::vector<std::string> words = random_words({"a", "b", "ä", "c"});
  for (int round = 0; round < 40; ++round) {
    for (const auto algorithm : {ModelFile::Algorithm::kUnigram, ModelFile::Algorithm::kBpe}) {
      ModelFile model = random_model(random, algorithm);
      const bool byte_fallback = random() % 2 == 0;
      model.removes_extra_blanks = random() % 2 == 0;
      for (int byte = 0; byte_fallback && byte < 256; ++byte)
        model.pieces.push_back({fmt::format("<0x{:02X}>", byte), 0, kByte});
      expect_same_ids(written_model(model, byte_fallback), words, 100, fmt::format("model {}", round));
    }
  }
}

TEST(SentencePieceWords, DocumentsOfManyLinesHaveTheIdsOfTheLibrary) {
  const std::vector<std::string> words = words_of_made_up_texts();
  for (const std::string rules : {"nmt_nfkc", "identity"}) {
    const SentencePieceVocabulary vocabulary(trained_model({{"normalization_rule_name", rules}}),
                                             "test.model");
    std::mt19937 random(18);
    for (int round = 0; round < 20; ++round) {
      std::string text;
      for (int line = 0; line < 500; ++line) {
        const std::string part =
            random() % 8 == 0 ? random_text(random, words) : words[random() % words.size()];
        if (part.find("▁") == std::string::npos) text += part + (random() % 4 == 0 ? "\r\n" : "\n");
      }
      ASSERT_EQ(vocabulary.encode(text), vocabulary.encode_at_once(text)) << rules;
    }
  }
}

TEST(SentencePieceWords, RoundingDecidesInLongTexts) {
  std::mt19937 random(15);
  const std::vector<std::string> words = random_words({"a", "b", "ä"});
  for (int round = 0; round < 20; ++round) {
    const SentencePieceVocabulary vocabulary(
        written_model(random_model(random, ModelFile::Algorithm::kUnigram)), "test.model");
    std::string text;
    for (int i = 0; i < 5000; ++i) text += words[random() % words.size()] + ' ';
    EXPECT_EQ(vocabulary.encode(text), vocabulary.encode_at_once(text));
  }
}

/// A text of 1.2 MB, beyond what Segmentation::limit reckons with.
std::string very_long_text(const std::vector<std::string>& words, bool of_all_kinds) {
  std::mt19937 random(16);
  std::string text;
  while (text.size() < 1'200'000) {
    std::string part = of_all_kinds && random() % 2 == 0 ? random_text(random, words) : "";
    if (part.find("▁") != std::string::npos) part.clear();
    text += part + words[random() % words.size()] + ' ';
  }
  return text;
}

TEST(SentencePieceWords, TextsOfMegabytesHaveTheIdsOfTheLibrary) {
  std::vector<std::string> words = words_of_made_up_texts();
  words.push_back(std::string(1000, 'a') + "über" + std::string(1000, '1'));
  const std::string text = very_long_text(words, true);
  for (const std::string type : {"unigram", "bpe"}) {
    for (const char* byte_fallback : {"false", "true"}) {
      const SentencePieceVocabulary vocabulary(trained_model({{"model_type", type},
                                                              {"vocab_size", "450"},
                                                              {"hard_vocab_limit", "false"},
                                                              {"byte_fallback", byte_fallback}}),
                                               "test.model");
      EXPECT_EQ(vocabulary.encode(text), vocabulary.encode_at_once(text)) << type << " " << byte_fallback;
    }
  }
}

TEST(SentencePieceWords, RoundingDecidesInTextsOfMegabytes) {
  std::mt19937 random(17);
  const std::string text = very_long_text(random_words({"a", "b", "ä", "c", ""}), false);
  for (int round = 0; round < 4; ++round) {
    ModelFile model = random_model(random, ModelFile::Algorithm::kUnigram);
    model.removes_extra_blanks = round % 2 == 0;
    const SentencePieceVocabulary vocabulary(written_model(model), "test.model");
    EXPECT_EQ(vocabulary.encode(text), vocabulary.encode_at_once(text)) << round;
  }
}

TEST(SentencePieceWords, SeveralThreadsShareTheWords) {
  const SentencePieceVocabulary vocabulary(trained_model({}), "test.model");
  const std::vector<std::string> texts = made_up_texts(300);
  std::atomic<int> differences = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (const std::string& text : texts)
        differences += vocabulary.encode(text) != vocabulary.encode_at_once(text);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(differences, 0);
}

TEST(PieceLattice, KnowsHowSureTheBestSegmentationIs) {
  const PieceLattice lattice(small_model());
  const auto limit = [](double gap, int characters) { return gap * 0x1p22 / (characters + 1); };
  // ▁ a 5, ▁a 4.5
  EXPECT_EQ(lattice.segment("▁a").cost, 4.5);
  EXPECT_EQ(lattice.segment("▁a").limit, limit(0.5, 2));
  // ▁ aa b 8.25, ▁a ab 7, ▁ a ab 7.5 and others
  EXPECT_EQ(lattice.segment("▁aab").cost, 7);
  EXPECT_EQ(lattice.segment("▁aab").limit, limit(0.5, 4));
  // ▁ aa a and ▁ a aa 8, ▁a aa 7.5, ▁a a a 8.5
  EXPECT_EQ(lattice.segment("▁aaa").limit, limit(0.5, 4));
  EXPECT_EQ(lattice.segment("▁baaa").limit, 0);
  // c is no piece: 10 more than the rarest one
  EXPECT_EQ(lattice.segment("▁c").cost, 3 + 15);
  EXPECT_EQ(lattice.segment("▁ä").cost, 3 + 5);
  EXPECT_EQ(lattice.segment("▁ä").limit, std::numeric_limits<double>::infinity());
}

TEST(PieceLattice, AppendsThePiecesOfAWordAndItsScores) {
  const PieceLattice lattice(small_model());
  float sum = -1;
  std::vector<PieceLattice::Part> parts;
  lattice.append("▁aab", sum, parts);
  EXPECT_EQ(sum, -8);
  lattice.append("▁c", sum, parts);
  EXPECT_EQ(sum, -8 - 18);
  std::vector<std::pair<int32_t, std::string_view>> found;
  for (const PieceLattice::Part& part : parts) found.emplace_back(part.id, part.text);
  EXPECT_THAT(found, ElementsAre(std::pair(5, "▁a"), std::pair(6, "ab"), std::pair(2, "▁"),
                                 std::pair(PieceLattice::kUnknown, "c")));
}

TEST(WordCache, KeepsWords) {
  WordCache cache;
  EXPECT_EQ(cache.find("Haus"), std::nullopt);
  cache.add("Haus", {.ids = std::vector<int32_t>{4, 5}, .cost = 1.5, .limit = 7});
  cache.add("", {});
  cache.add("Haus", {.ids = std::vector<int32_t>{6}});
  const auto word = cache.find("Haus");
  ASSERT_TRUE(word);
  EXPECT_THAT(word->ids, ElementsAre(4, 5));
  EXPECT_EQ(word->cost, 1.5);
  EXPECT_EQ(word->limit, 7);
  EXPECT_THAT(cache.find(""), Optional(::testing::Field(&CachedWord::ids, ElementsAre())));
  EXPECT_EQ(cache.find("Hau"), std::nullopt);
}

TEST(WordCache, TakesNoMoreWhenItIsFull) {
  WordCache cache;
  const auto count = [&](int64_t words, auto word) {
    int64_t found = 0;
    for (int64_t i = 0; i < words; ++i)
      cache.add(word(i), {.ids = std::vector<int32_t>{static_cast<int32_t>(i)}});
    for (int64_t i = 0; i < words; ++i) {
      const auto value = cache.find(word(i));
      found += value && value->ids.front() == i;
    }
    return found;
  };
  EXPECT_EQ(count(WordCache::most_words + 1000, [](int64_t i) { return std::to_string(i); }),
            WordCache::most_words);
}

TEST(WordCache, TakesNoMoreBytesThanItHas) {
  WordCache cache;
  const std::vector<int32_t> ids(50'000, 3);
  int64_t added = 0;
  for (int i = 0; i < 1000; ++i) {
    cache.add(std::to_string(i), {.ids = ids});
    added += cache.find(std::to_string(i)).has_value();
  }
  EXPECT_EQ(added, WordCache::bytes / (4 * (50'000 + 3 + 1)));
}

}  // namespace
}  // namespace mtf
