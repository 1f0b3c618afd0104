#include "data/vocabulary/hugging_face_vocabulary.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "data/vocabulary/renumbering.h"
#include "engine/base/error.h"
#include "tests/support/failure.h"

namespace mtf {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kTokenizers = MTF_SOURCE_DIR "/tests/golden/hf_tokenizers/";

json read_golden(const std::string& name) { return json::parse(std::ifstream(kTokenizers + name)); }

/// The tokens that begin and end texts in a tokeniser of that kind.
HuggingFaceRules golden_rules(const std::string& kind) {
  if (kind == "gpt2" || kind == "qwen2" || kind == "smollm") return {.end = "<|endoftext|>"};
  return {.begin = "<s>", .end = "</s>"};
}

int32_t golden_id(const std::string& kind, const std::string& token) {
  const json file = read_golden(kind + ".json");
  for (const json& added : file["added_tokens"]) {
    if (added["content"] == token) return added["id"];
  }
  return file["model"]["vocab"].at(token);
}

class LikeTokenizers : public ::testing::TestWithParam<const char*> {};

TEST_P(LikeTokenizers, EncodesAndDecodes) {
  const std::string kind = GetParam();
  const HuggingFaceRules rules = golden_rules(kind);
  const auto vocabulary = read_hugging_face_vocabulary(kTokenizers + kind + ".json", rules);
  FileIds special{.size = vocabulary->size() - (rules.begin ? 0 : 1), .end = golden_id(kind, rules.end)};
  if (rules.begin) special.begin = golden_id(kind, *rules.begin);
  const std::vector<int32_t> file_ids = file_ids_of(special);
  ASSERT_EQ(vocabulary->size(), std::ssize(file_ids));

  const json texts = read_golden("texts.json"), expected = read_golden(kind + ".ids.json");
  ASSERT_EQ(texts.size(), expected.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    const std::string text = texts[i];
    std::vector<int32_t> ids;
    for (const int32_t id : vocabulary->encode(text)) ids.push_back(file_ids[static_cast<size_t>(id)]);
    auto expected_ids = expected[i][0].get<std::vector<int32_t>>();
    const bool is_plain = std::erase(expected_ids, special.begin.value_or(kNoFileId)) == 0 &&
                          std::ranges::find(expected_ids, special.end) == expected_ids.end();
    EXPECT_EQ(ids, expected_ids) << text;
    if (!is_plain) continue;
    EXPECT_EQ(vocabulary->decode(vocabulary->encode(text)), expected[i][1].get<std::string>());
  }
}

INSTANTIATE_TEST_SUITE_P(HuggingFace, LikeTokenizers,
                         ::testing::Values("gpt2", "llama3", "qwen2", "smollm", "llama2", "mistral",
                                           "xlm_roberta", "unigram"),
                         [](const auto& kind) { return std::string(kind.param); });

/// A small tokeniser as JSON, with pieces of words and bytes as tokens.
json small_tokenizer() {
  return json::parse(R"({
    "added_tokens": [{"id": 6, "content": "<s>", "special": true}, {"id": 7, "content": "</s>", "special": true}],
    "normalizer": null,
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false},
    "decoder": {"type": "ByteLevel"},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "Ġ": 3, "Ġab": 4, "Ã": 5}, "merges": ["a b", ["Ġ", "ab"]]}
  })");
}

HuggingFaceVocabulary open(const json& tokenizer,
                           const HuggingFaceRules& rules = {.begin = "<s>", .end = "</s>"}) {
  return {tokenizer.dump(), "tokenizer.json", rules};
}

std::vector<std::string> pieces_of(const HuggingFaceVocabulary& vocabulary, std::string_view text) {
  std::vector<std::string> pieces;
  for (const int32_t id : vocabulary.encode(text)) pieces.push_back(vocabulary.piece(id));
  return pieces;
}

TEST(HuggingFace, MergesInTheOrderOfTheList) {
  EXPECT_THAT(pieces_of(open(small_tokenizer()), "ab ab ba"), ElementsAre("ab", " ab", " ", "b", "a"));
}

TEST(HuggingFace, BeginAndEndBecomeTheFirstIds) {
  const HuggingFaceVocabulary vocabulary = open(small_tokenizer());
  EXPECT_EQ(vocabulary.size(), 8);
  EXPECT_EQ(vocabulary.piece(0), "<s>");
  EXPECT_EQ(vocabulary.piece(1), "</s>");
  EXPECT_THAT(vocabulary.encode("ab"), ElementsAre(2));
  EXPECT_THAT(vocabulary.encode("a"), ElementsAre(6));
  EXPECT_THAT(vocabulary.encode("<s>ab</s>ab"), ElementsAre(2, 1, 2));
  EXPECT_EQ(vocabulary.decode(std::vector<int32_t>{0, 2, 4, -1, 99, 1, 2}), "ab ab");
}

TEST(HuggingFace, WithoutABeginPaddingIsANewId) {
  const HuggingFaceVocabulary vocabulary = open(small_tokenizer(), {.end = "</s>", .size = 10});
  EXPECT_EQ(vocabulary.size(), 11);
  EXPECT_EQ(vocabulary.piece(0), "<pad>");
  EXPECT_EQ(vocabulary.piece(10), "a");
  EXPECT_EQ(vocabulary.piece(9), "");
  EXPECT_THAT(vocabulary.encode("a<s>"), ElementsAre(10, 6));
  EXPECT_EQ(vocabulary.decode(std::vector<int32_t>{10, 9, 8, 2}), "aab");
}

TEST(HuggingFace, PiecesAreReadable) {
  const HuggingFaceVocabulary vocabulary = open(small_tokenizer());
  EXPECT_EQ(vocabulary.piece(4), " ab");
  EXPECT_EQ(vocabulary.piece(5), "<0xC3>");
  EXPECT_EQ(vocabulary.piece(-1), "");
  EXPECT_EQ(vocabulary.piece(8), "");
  EXPECT_TRUE(vocabulary.continues_word(2));
  EXPECT_TRUE(vocabulary.continues_word(5));
  EXPECT_FALSE(vocabulary.continues_word(4));
  EXPECT_FALSE(vocabulary.continues_word(1));
  EXPECT_FALSE(vocabulary.continues_word(99));
}

TEST(HuggingFace, BytesThatAreNoUtf8AreReplaced) {
  const auto vocabulary = read_hugging_face_vocabulary(kTokenizers + "gpt2.json", {.end = "<|endoftext|>"});
  EXPECT_EQ(vocabulary->encode("a\xff\xe4\xb8z"), vocabulary->encode("a\ufffd\ufffdz"));
  const std::vector<int32_t> ids = vocabulary->encode("\U0001f98a");
  EXPECT_EQ(vocabulary->decode(ids), "\U0001f98a");
  EXPECT_EQ(vocabulary->decode(std::span(ids).first(ids.size() - 1)), "\ufffd");
}

TEST(HuggingFace, CharactersWithoutATokenAreUnknownOrLost) {
  json tokenizer = small_tokenizer();
  EXPECT_THAT(pieces_of(open(tokenizer), "axxb"), ElementsAre("ab"));
  tokenizer["pre_tokenizer"] = nullptr;
  tokenizer["model"]["unk_token"] = "Ã";
  EXPECT_THAT(pieces_of(open(tokenizer), "axxb"), ElementsAre("a", "Ã", "Ã", "b"));
  tokenizer["model"]["fuse_unk"] = true;
  EXPECT_THAT(pieces_of(open(tokenizer), "axxb"), ElementsAre("a", "Ã", "b"));
}

/// A small unigram model, in which words are not divided further.
json unigram_tokenizer() {
  return json::parse(R"({
    "added_tokens": [{"id": 1, "content": "<s>", "special": true}, {"id": 2, "content": "</s>", "special": true}],
    "normalizer": {"type": "Sequence", "normalizers": [
      {"type": "Strip", "strip_left": true, "strip_right": false}, {"type": "NFKC"},
      {"type": "Replace", "pattern": {"Regex": "x{2,}"}, "content": "y"}]},
    "pre_tokenizer": {"type": "WhitespaceSplit"},
    "decoder": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "never"},
    "model": {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0], ["<s>", 0], ["</s>", 0], ["a", -2], ["b", -2], ["ab", -4],
      ["aba", -5], ["y", -3], ["fi", -3], ["<0xC3>", -9], ["<0xA4>", -9], ["qr", -9]]}
  })");
}

TEST(HuggingFace, UnigramModelsTakeTheMostProbableTokens) {
  json tokenizer = unigram_tokenizer();
  const auto pieces = [&](const char* text) { return pieces_of(open(tokenizer), text); };
  EXPECT_THAT(pieces("ab aba"), ElementsAre("ab", "aba"));  // the longer last token wins between equal sums
  EXPECT_THAT(pieces("abab"), ElementsAre("aba", "b"));
  EXPECT_THAT(pieces("  xxx\u00a0a \ufb01"), ElementsAre("y", "a", "fi"));
  EXPECT_THAT(pieces("a\u00e4\u00e4\u00e4b zz"), ElementsAre("a", "<unk>", "b", "<unk>"));
  EXPECT_THAT(pieces("aqrb"), ElementsAre("a", "qr", "b"));
  tokenizer["model"]["byte_fallback"] = true;
  EXPECT_THAT(pieces("\u00e4b"), ElementsAre("<0xC3>", "<0xA4>", "b"));
  EXPECT_THAT(pieces("\u4e00"), ElementsAre("<unk>"));
}

TEST(HuggingFace, UnknownCharactersInARowMayBeAToken) {
  json tokenizer = unigram_tokenizer();
  tokenizer["model"]["vocab"][11][1] = -100;  // less probable than two unknown characters
  EXPECT_THAT(pieces_of(open(tokenizer), "aqrb"), ElementsAre("a", "qr", "b"));
}

TEST(HuggingFace, NothingIsDrawnWithAUnigramModel) {
  const HuggingFaceVocabulary vocabulary = open(unigram_tokenizer());
  EXPECT_EQ(vocabulary.sampler({SegmentationKind::kUnigram, 0.1}), nullptr);
  EXPECT_EQ(vocabulary.sampler({SegmentationKind::kMerges, 0.1}), nullptr);
}

TEST(HuggingFace, ADamagedUnigramModelIsNamed) {
  const auto message = [](const std::string& key, const json& value) {
    json tokenizer = unigram_tokenizer();
    tokenizer[json::json_pointer(key)] = value;
    return failure([&] { open(tokenizer); }, ErrorKind::kData);
  };
  EXPECT_THAT(message("/model/unk_id", nullptr), HasSubstr("model.unk_id is `null`"));
  EXPECT_THAT(message("/model/unk_id", 12), HasSubstr("model.unk_id is `12`"));
  EXPECT_THAT(message("/model/vocab/3", json::array({"a"})), HasSubstr("model.vocab[3]"));
  EXPECT_THAT(message("/model/vocab/3/1", "-2"), HasSubstr("model.vocab[3][1] is `\"-2\"`"));
  EXPECT_THAT(message("/model/vocab", json::array()), HasSubstr("model.vocab is `[]`"));
  EXPECT_THAT(message("/pre_tokenizer", {{"type", "ByteLevel"}}),
              HasSubstr("no ByteLevel with a unigram model"));
  EXPECT_THAT(message("/normalizer/normalizers/1/type", "Lowercase"), HasSubstr("Precompiled"));
  const json map = {{"type", "Precompiled"}, {"precompiled_charsmap", "AAAA"}};
  EXPECT_THAT(message("/normalizer", map), HasSubstr("normalizer.precompiled_charsmap is damaged"));
}

TEST(HuggingFace, AWordOfAMillionCharactersTakesNoLongerThanManyWords) {
  std::string text;
  for (int i = 0; i < 500'000; ++i) text += "ab";
  for (const char* kind : {"gpt2", "llama2", "llama3"}) {
    const auto vocabulary = read_hugging_face_vocabulary(kTokenizers + kind + ".json", golden_rules(kind));
    EXPECT_EQ(vocabulary->decode(vocabulary->encode(text)), text) << kind;
  }
}

TEST(HuggingFace, FingerprintTellsFileBeginEndAndSize) {
  const std::string fingerprint = open(small_tokenizer()).fingerprint();
  json other = small_tokenizer();
  other["model"]["vocab"]["bb"] = 8;
  EXPECT_EQ(open(small_tokenizer()).fingerprint(), fingerprint);
  EXPECT_NE(open(other).fingerprint(), fingerprint);
  EXPECT_NE(open(small_tokenizer(), {.end = "</s>"}).fingerprint(), fingerprint);
  EXPECT_NE(open(small_tokenizer(), {.begin = "</s>", .end = "<s>"}).fingerprint(), fingerprint);
  EXPECT_NE(open(small_tokenizer(), {.begin = "<s>", .end = "</s>", .size = 9}).fingerprint(), fingerprint);
}

TEST(HuggingFace, RulesMustFitTheFile) {
  const auto refusal = [](const HuggingFaceRules& rules, ErrorKind kind) {
    return failure([&] { open(small_tokenizer(), rules); }, kind);
  };
  EXPECT_THAT(refusal({.end = "<eos>"}, ErrorKind::kConfig),
              HasSubstr("tokenizer.json has no token `<eos>`, which `end` names"));
  EXPECT_THAT(refusal({.begin = "", .end = "</s>"}, ErrorKind::kConfig), HasSubstr("which `begin` names"));
  EXPECT_THAT(refusal({.begin = "</s>", .end = "</s>"}, ErrorKind::kConfig), HasSubstr("`begin: null`"));
  EXPECT_THAT(refusal({.end = "</s>", .size = 7}, ErrorKind::kConfig), HasSubstr("no token `</s>`"));
  EXPECT_THAT(refusal({.end = "</s>", .size = 5}, ErrorKind::kData),
              AllOf(HasSubstr("tokens up to id 5, but `size` is 5"), HasSubstr("`size: 6`")));
}

TEST(HuggingFace, AddedTokensBeyondTheIdsOfTheModelAreText) {
  const auto with_all = open(small_tokenizer(), {.end = "<s>"}),
             with_fewer = open(small_tokenizer(), {.end = "<s>", .size = 7});
  EXPECT_EQ(with_all.size(), with_fewer.size() + 1);
  EXPECT_THAT(pieces_of(with_all, "a</s>"), ElementsAre("a", "</s>"));
  EXPECT_THAT(pieces_of(with_fewer, "a</s>"), ::testing::Not(::testing::Contains("</s>")));
  EXPECT_THAT(pieces_of(with_fewer, "a<s>"), ElementsAre("a", "<s>"));
}

/// The message for a file in which the value at a JSON pointer is another one.
std::string refusal_with(const std::string& pointer, const json& value) {
  json tokenizer = small_tokenizer();
  tokenizer[json::json_pointer(pointer)] = value;
  return failure([&] { open(tokenizer); }, ErrorKind::kData);
}

TEST(HuggingFace, WhatIsNotSupportedIsNamed) {
  const auto pattern = [](const char* regex) {
    return json{
        {"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", "Isolated"}, {"invert", false}};
  };
  EXPECT_THAT(refusal_with("/model/type", "WordLevel"),
              AllOf(HasSubstr("tokenizer.json: model.type is `\"WordLevel\"`; supported: BPE, Unigram")));
  EXPECT_THAT(refusal_with("/model/dropout", 0.1), HasSubstr("model.dropout is `0.1`"));
  EXPECT_THAT(refusal_with("/model/end_of_word_suffix", "</w>"),
              HasSubstr("model.end_of_word_suffix is `\"</w>\"`"));
  EXPECT_THAT(refusal_with("/model/cache", 3),
              HasSubstr("model.cache is `3`; of model these are supported: type, dropout"));
  EXPECT_THAT(refusal_with("/normalizer", {{"type", "Lowercase"}}),
              HasSubstr("normalizer.type is `\"Lowercase\"`; supported: NFC, NFD, NFKC, NFKD, Precompiled, "
                        "Prepend, Replace, Strip, Sequence"));
  EXPECT_THAT(refusal_with("/normalizer", {{"type", "Sequence"}, {"normalizers", {{{"type", "Lowercase"}}}}}),
              HasSubstr("normalizer.normalizers[0].type is `\"Lowercase\"`"));
  EXPECT_THAT(refusal_with("/pre_tokenizer/type", "Whitespace"),
              HasSubstr("pre_tokenizer.type is `\"Whitespace\"`; supported: ByteLevel, Digits, Metaspace, "
                        "Split, WhitespaceSplit, Sequence"));
  EXPECT_THAT(refusal_with("/decoder/type", "WordPiece"), HasSubstr("decoder.type is `\"WordPiece\"`"));
  EXPECT_THAT(refusal_with("/decoder", nullptr), HasSubstr("decoder is `null`"));
  EXPECT_THAT(refusal_with("/pre_tokenizer", pattern("(a")),
              HasSubstr("the pattern `(a` is malformed at character 2"));
  EXPECT_THAT(refusal_with("/pre_tokenizer", pattern("\\w+")),
              HasSubstr("has `\\w`, which is not supported"));
  EXPECT_THAT(refusal_with("/pre_tokenizer", pattern("\\p{N}{1,3}+")), HasSubstr("has `}+`"));
  EXPECT_THAT(refusal_with("/pre_tokenizer", pattern("(?m).")), HasSubstr("has `(?m`"));
  EXPECT_EQ(refusal_with("/pre_tokenizer", pattern("(?i:a)\\p{L}++|\\S+?(?<!\\d)")), "no error");
}

TEST(HuggingFace, ADamagedFileIsNamed) {
  EXPECT_THAT(refusal_with("/model/vocab/b", 0),
              HasSubstr("model.vocab gives id 0 to `b`, which is that of `a`"));
  EXPECT_THAT(refusal_with("/model/vocab/b", -1), HasSubstr("model.vocab.b is `-1`; a whole number from 0"));
  EXPECT_THAT(refusal_with("/model/merges/0", "a b c"),
              HasSubstr("model.merges[0] is `\"a b c\"`; two tokens"));
  EXPECT_THAT(refusal_with("/model/merges/0", "a c"),
              HasSubstr("model.merges[0] names `c`, which is no token"));
  EXPECT_THAT(refusal_with("/model/unk_token", "<unk>"), HasSubstr("model.unk_token names `<unk>`"));
  EXPECT_THAT(refusal_with("/added_tokens/1/id", 6), HasSubstr("added_tokens[1] gives id 6 to `</s>`"));
  EXPECT_THAT(refusal_with("/added_tokens/0/id", 7), HasSubstr("added_tokens[0].id is `7`; 6, the next id"));
  EXPECT_THAT(refusal_with("/added_tokens/0/content", "a"),
              HasSubstr("added_tokens[0].id is `6`; 0, the id of `a`"));
  EXPECT_THAT(refusal_with("/added_tokens/0/lstrip", 1),
              HasSubstr("added_tokens[0].lstrip is `1`; true or false"));
  const auto refusal = [](std::string_view file) {
    return failure([&] { HuggingFaceVocabulary(file, "x.json", {.end = "</s>"}); }, ErrorKind::kData);
  };
  EXPECT_THAT(refusal("{"), HasSubstr("x.json: no JSON"));
  EXPECT_THAT(refusal(R"({"model": {"vocab": {"</s>": 0}, "merges": []}, "decoder": {"type": "Fuse"}})"),
              HasSubstr("x.json has fewer than two tokens"));
  EXPECT_THAT(refusal("[]"),
              HasSubstr("x.json: there is no `model` in it; a tokenizer.json of Hugging Face"));
  EXPECT_THAT(refusal("{\"model\": {}, \"model\": {}}"), HasSubstr("`model` occurs twice"));
}

}  // namespace
}  // namespace mtf
