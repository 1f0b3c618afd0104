#include "data/vocabulary/sentencepiece_vocabulary.h"

#include <gmock/gmock.h>
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <random>
#include <unordered_map>

#include "data/vocabulary/train_vocabulary.h"
#include "engine/base/error.h"
#include "tests/data/library_model.h"
#include "tests/data/made_up_texts.h"

namespace mtf {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string trained(const SentencePieceTraining& options) {
  TextSample sample;
  for (const std::string& text : made_up_texts(1000)) sample.add(text);
  return train_sentencepiece(sample, options);
}

SentencePieceVocabulary trained_vocabulary(const SentencePieceTraining& options) {
  return {trained(options), "test.model"};
}

/// Returns a model with other special ids; -1 omits the piece.
std::string model_with_ids(int pad, int unknown, int begin, int end) {
  return library_model(made_up_texts(500), {{"vocab_size", "150"},
                                            {"pad_id", std::to_string(pad)},
                                            {"unk_id", std::to_string(unknown)},
                                            {"bos_id", std::to_string(begin)},
                                            {"eos_id", std::to_string(end)}});
}

TEST(SentencePieceVocabulary, PaddingIs0TheEndOfSequence1AndUnknownText2) {
  const SentencePieceVocabulary vocabulary = trained_vocabulary({.size = 400});
  EXPECT_EQ(vocabulary.size(), 400);
  EXPECT_EQ(vocabulary.piece(0), "<pad>");
  EXPECT_EQ(vocabulary.piece(1), "</s>");
  EXPECT_EQ(vocabulary.piece(2), "<unk>");
  EXPECT_EQ(vocabulary.piece(3), "<0x00>");
  EXPECT_EQ(vocabulary.piece(-1), "");
  EXPECT_EQ(vocabulary.piece(400), "");
}

TEST(SentencePieceVocabulary, TextsComeBackFromBothKindsOfModel) {
  for (const SentencePieceModel model : {SentencePieceModel::kUnigram, SentencePieceModel::kBpe}) {
    const SentencePieceVocabulary vocabulary = trained_vocabulary({.size = 500, .model = model});
    size_t tokens = 0, bytes = 0;
    for (const std::string& text : made_up_texts(200)) {
      const std::vector<int32_t> ids = vocabulary.encode(text);
      EXPECT_EQ(vocabulary.decode(ids), text);
      tokens += ids.size();
      bytes += text.size();
    }
    EXPECT_GT(bytes, 2.5 * tokens);  // pieces of several letters are found
  }
}

TEST(SentencePieceVocabulary, WithoutNormalizationAnyUnicodeComesBack) {
  for (const SentencePieceModel model : {SentencePieceModel::kUnigram, SentencePieceModel::kBpe}) {
    const SentencePieceVocabulary vocabulary =
        trained_vocabulary({.size = 350, .model = model, .normalization = TextNormalization::kNone});
    std::mt19937 random(3);
    for (int round = 0; round < 2000; ++round) {
      const std::string text = random_unicode(random);
      if (text.find("▁") != std::string::npos) continue;
      EXPECT_EQ(vocabulary.decode(vocabulary.encode(text)), text);
    }
    EXPECT_EQ(vocabulary.decode(vocabulary.encode("  two  blanks \n")), "  two  blanks \n");
    EXPECT_EQ(vocabulary.decode(vocabulary.encode("U+2581 is a ▁")), "U+2581 is a  ");
  }
}

TEST(SentencePieceVocabulary, NormalizationUnifiesCharactersAndBlanks) {
  const SentencePieceVocabulary vocabulary = trained_vocabulary({.size = 400});
  const auto normalized = [&](std::string_view text) { return vocabulary.decode(vocabulary.encode(text)); };
  EXPECT_EQ(normalized("  ein\t Haus \n"), "ein Haus");
  EXPECT_EQ(normalized("ﬁn ² Ａ \x01"), "fin 2 A");
  EXPECT_EQ(normalized("e\u0301"), "é");
  EXPECT_EQ(normalized("日本語 😀"), "日本語 😀");
}

TEST(SentencePieceVocabulary, BytesThatAreNoUtf8BecomeTheReplacementCharacter) {
  const SentencePieceVocabulary vocabulary =
      trained_vocabulary({.size = 400, .normalization = TextNormalization::kNone});
  EXPECT_EQ(vocabulary.decode(vocabulary.encode("a\xff\xc3 b")), "a\uFFFD\uFFFD b");
  std::mt19937 random(5);
  for (int round = 0; round < 500; ++round) {
    std::string bytes(random() % 60, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    const std::string text = vocabulary.decode(vocabulary.encode(bytes));
    EXPECT_EQ(vocabulary.decode(vocabulary.encode(text)), text);
  }
  // The generated text of a model may end within a character.
  EXPECT_EQ(vocabulary.decode(std::vector<int32_t>{3 + 0xC3}), "\uFFFD");
}

TEST(SentencePieceVocabulary, WithoutByteFallbackOtherCharactersAreUnknown) {
  const SentencePieceVocabulary vocabulary = trained_vocabulary({.size = 150, .byte_fallback = false});
  EXPECT_THAT(vocabulary.encode("日"), ::testing::Contains(2));
  EXPECT_EQ(vocabulary.decode(std::vector<int32_t>{2}), " ⁇ ");
}

TEST(SentencePieceVocabulary, DecodingEndsAtTheEndOfSequence) {
  const SentencePieceVocabulary vocabulary = trained_vocabulary({.size = 400});
  std::vector<int32_t> ids = vocabulary.encode("haus");
  ids.insert(ids.begin(), {0, -3, 400, 100000});
  ids.insert(ids.end(), {0, 1, 50, 60});
  EXPECT_EQ(vocabulary.decode(ids), "haus");
  EXPECT_EQ(vocabulary.decode({}), "");
}

TEST(SentencePieceVocabulary, NamesOfSpecialPiecesInATextAreText) {
  const SentencePieceVocabulary vocabulary = trained_vocabulary({.size = 400});
  const std::vector<int32_t> ids = vocabulary.encode("</s> <pad> <unk>");
  EXPECT_THAT(ids, ::testing::Each(::testing::Gt(2)));
  EXPECT_EQ(vocabulary.decode(ids), "</s> <pad> <unk>");
}

TEST(SentencePieceVocabulary, ModelsWithOtherIdsGetPadding0AndEnd1) {
  const auto pieces = [](const Vocabulary& vocabulary, int count) {
    std::vector<std::string> result;
    for (int id = 0; id < count; ++id) result.push_back(vocabulary.piece(id));
    return result;
  };
  // The ids of SentencePiece's own programs: unknown 0, begin 1, end 2, no padding.
  const std::string model = model_with_ids(-1, 0, 1, 2);
  const SentencePieceVocabulary usual(model, "usual");
  EXPECT_EQ(usual.size(), 151);
  EXPECT_THAT(pieces(usual, 3), ElementsAre("<pad>", "</s>", "<s>"));
  EXPECT_EQ(usual.piece(150), "<unk>");
  // All other ids are those of the file.
  sentencepiece::SentencePieceProcessor processor;
  ASSERT_TRUE(processor.LoadFromSerializedProto(model).ok());
  for (int id = 3; id < 150; ++id) EXPECT_EQ(usual.piece(id), processor.IdToPiece(id));
  for (const std::string& text : made_up_texts(50)) {
    EXPECT_EQ(usual.encode(text), processor.EncodeAsIds(text));
    EXPECT_EQ(usual.decode(usual.encode(text)), text);
  }
  EXPECT_THAT(usual.encode("語"), ::testing::Contains(150));  // unknown
  EXPECT_EQ(usual.decode(std::vector<int32_t>{150}), " ⁇ ");

  const SentencePieceVocabulary neither(model_with_ids(-1, 0, -1, -1), "neither");
  EXPECT_EQ(neither.size(), 152);
  EXPECT_THAT(pieces(neither, 2), ElementsAre("<pad>", "</s>"));
  const SentencePieceVocabulary exchanged(model_with_ids(1, 2, -1, 0), "exchanged");
  EXPECT_EQ(exchanged.size(), 150);
  EXPECT_THAT(pieces(exchanged, 3), ElementsAre("<pad>", "</s>", "<unk>"));
  const SentencePieceVocabulary t5(model_with_ids(0, 2, -1, 1), "t5");
  EXPECT_THAT(pieces(t5, 3), ElementsAre("<pad>", "</s>", "<unk>"));
  for (const Vocabulary* vocabulary : {&neither, &exchanged, &t5})
    EXPECT_EQ(vocabulary->decode(vocabulary->encode("haus baum")), "haus baum");
}

TEST(SentencePieceVocabulary, OtherVocabulariesHaveOtherFingerprints) {
  EXPECT_EQ(trained_vocabulary({.size = 400}).fingerprint(), trained_vocabulary({.size = 400}).fingerprint());
  EXPECT_NE(trained_vocabulary({.size = 400}).fingerprint(), trained_vocabulary({.size = 401}).fingerprint());
}

TEST(SentencePieceVocabulary, DamagedModelsAreRefusedOrUsed) {
  const std::string model = trained({.size = 330, .normalization = TextNormalization::kNone});
  const auto use = [](const std::string& bytes) {
    try {
      const SentencePieceVocabulary vocabulary(bytes, "x.model");
      vocabulary.decode(vocabulary.encode("ein Haus, 日本"));
      return true;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kData);
      EXPECT_THAT(error.what(), AllOf(HasSubstr("x.model: no SentencePiece model"), HasSubstr("mtf-vocab")));
      return false;
    }
  };
  EXPECT_TRUE(use(model));
  EXPECT_FALSE(use(""));
  EXPECT_FALSE(use("This is a text, and no model."));
  EXPECT_FALSE(use(model.substr(0, model.size() - 1)));
  std::mt19937 random(6);
  for (int round = 0; round < 300; ++round) {
    std::string damaged = model;
    damaged[random() % damaged.size()] = static_cast<char>(random());
    use(damaged);
  }
}

}  // namespace
}  // namespace mtf
