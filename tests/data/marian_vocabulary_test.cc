#include "data/vocabulary/marian_vocabulary.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <fstream>
#include <string>

#include "data/vocabulary/marian_tokens.h"
#include "data/vocabulary/vocabulary.h"
#include "tests/support/failure.h"

namespace mtf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kMarianFiles = MTF_SOURCE_DIR "/tests/golden/hf_marian/";

std::unique_ptr<Vocabulary> marian_side(const std::string& side, std::optional<int64_t> size = {}) {
  return read_marian_vocabulary(kMarianFiles + side + ".spm", read_marian_tokens(kMarianFiles + "vocab.json"),
                                size);
}

std::string marian_tokens_of(const Vocabulary& vocabulary, const std::string& text) {
  std::string tokens;
  for (const int32_t id : vocabulary.encode(text))
    tokens += (tokens.empty() ? "" : " ") + vocabulary.piece(id);
  return tokens;
}

/// tokens.txt has a line of the source's tokens and one of the target's for each text.
TEST(MarianVocabulary, HasTheTokensOfTransformers) {
  const auto source = marian_side("source"), target = marian_side("target");
  std::ifstream texts(kMarianFiles + "inputs.txt"), tokens(kMarianFiles + "tokens.txt");
  std::string text, of_source, of_target;
  int count = 0;
  for (; std::getline(texts, text) && std::getline(tokens, of_source) && std::getline(tokens, of_target);
       ++count) {
    EXPECT_EQ(marian_tokens_of(*source, text), of_source);
    EXPECT_EQ(marian_tokens_of(*target, text), of_target);
  }
  EXPECT_EQ(count, 20);
}

TEST(MarianVocabulary, PaddingAndTheEndHaveTheFirstIds) {
  const auto vocabulary = marian_side("source");
  EXPECT_EQ(vocabulary->size(), 64);
  EXPECT_EQ(vocabulary->piece(kPadId), "<pad>");
  EXPECT_EQ(vocabulary->piece(kEosId), "</s>");
  EXPECT_EQ(vocabulary->piece(63), "<unk>");
  EXPECT_EQ(marian_side("source", 66)->size(), 66);
  EXPECT_EQ(marian_side("source", 66)->piece(65), "");
}

TEST(MarianVocabulary, ALanguageIsOneTokenInFrontOfATextAlone) {
  const auto vocabulary = marian_side("source");
  EXPECT_THAT(marian_tokens_of(*vocabulary, ">>deu<< the"), ">>deu<< ▁the");
  EXPECT_THAT(marian_tokens_of(*vocabulary, ">>no<< the"), "<unk> ▁the");
  EXPECT_THAT(marian_tokens_of(*vocabulary, ">>deu<<"), ">>deu<<");
  EXPECT_THAT(marian_tokens_of(*vocabulary, "the >>deu<<"), HasSubstr("<unk>"));
  EXPECT_FALSE(vocabulary->continues_word(vocabulary->encode(">>deu<<")[0]));
}

TEST(MarianVocabulary, DecodesTokensOfBothSides) {
  const auto source = marian_side("source"), target = marian_side("target");
  EXPECT_EQ(source->decode(source->encode("  the out  string ")), "the out string");
  EXPECT_EQ(target->decode(source->encode("the out")), "the out");
  std::vector<int32_t> ids = source->encode("the out");
  ids.insert(ids.begin() + 1, {kPadId, 1000, -1, kEosId});
  EXPECT_EQ(source->decode(ids), "the");
  EXPECT_EQ(source->decode({}), "");
}

TEST(MarianVocabulary, BothSidesNumberTheSameTokens) {
  const std::string source = marian_side("source")->fingerprint(),
                    target = marian_side("target")->fingerprint();
  EXPECT_NE(source, target);
  EXPECT_EQ(numbering_of(source), numbering_of(target));
  EXPECT_NE(numbering_of(source), numbering_of(marian_side("source", 66)->fingerprint()));
  EXPECT_EQ(numbering_of("sentencepiece:ab:cd"), "sentencepiece:ab:cd");
}

TEST(MarianTokens, DamagedFilesAreRefused) {
  const auto what = [](const std::string& json) {
    return failure([&] { (void)MarianTokens(json, "vocab.json"); }, ErrorKind::kData);
  };
  const std::string special = R"("<pad>": 9, "</s>": 0, "<unk>": 1)";
  EXPECT_THAT(what("{"), HasSubstr("vocab.json: it is no JSON"));
  EXPECT_THAT(what("[]"), HasSubstr("it has no tokens"));
  EXPECT_THAT(what(R"({"a": 1})"), HasSubstr("it has no token `<pad>`"));
  EXPECT_THAT(what("{" + special + R"(, "a": 1})"), HasSubstr("id 1 is that of"));
  EXPECT_THAT(what("{" + special + R"(, "<pad>": 4})"), HasSubstr("token `<pad>` occurs twice"));
  for (const char* id : {"-1", "1.5", "\"1\"", "null", "99999999999"})
    EXPECT_THAT(what(fmt::format("{{{}, \"a\": {}}}", special, id)), HasSubstr("token `a` has the id"));
  const MarianTokens tokens("{" + special + "}", "vocab.json");
  EXPECT_EQ(tokens.size(), 10);
  EXPECT_EQ(tokens.token(5), "");
  EXPECT_THAT(failure([&] { (void)tokens.file_ids(9); }, ErrorKind::kData), HasSubstr("`size: 10` or more"));
}

TEST(MarianVocabulary, AddedTokensStandBehindThoseOfTheFile) {
  const auto vocabulary =
      read_marian_vocabulary(kMarianFiles + "source.spm",
                             read_marian_tokens(kMarianFiles + "vocab.json", {"__de__", "__de_AT__"}), {});
  EXPECT_EQ(vocabulary->size(), 66);
  EXPECT_EQ(vocabulary->piece(64), "__de__");
  EXPECT_THAT(marian_tokens_of(*vocabulary, "__de__ the"), "__de__ ▁the");
  EXPECT_THAT(marian_tokens_of(*vocabulary, "__de_AT__ the"), "__de_AT__ ▁the");
  EXPECT_FALSE(vocabulary->continues_word(64));
  EXPECT_NE(vocabulary->fingerprint(), marian_side("source", 66)->fingerprint());
  EXPECT_THAT(
      failure([] { (void)read_marian_tokens(kMarianFiles + "vocab.json", {"</s>"}); }, ErrorKind::kData),
      HasSubstr("token `</s>` is an added one, too"));
}

}  // namespace
}  // namespace mtf
