// Rows of texts and pairs with the tokens that encoders have around them, and their tokenisers.
#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "data/labelled/labelled_text.h"
#include "data/vocabulary/hugging_face_vocabulary.h"
#include "data/vocabulary/renumbering.h"
#include "data/vocabulary/special_tokens.h"
#include "data/vocabulary/wordpiece_vocabulary.h"
#include "tests/support/failure.h"

namespace mtf {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

std::string encoder_directory(const std::string& kind) { return MTF_SOURCE_DIR "/tests/golden/hf_" + kind; }

std::unique_ptr<Vocabulary> encoder_vocabulary(const std::string& kind) {
  const bool is_modern = kind == "modernbert";
  return read_hugging_face_vocabulary(
      encoder_directory(kind) + "/tokenizer.json",
      {.begin = is_modern ? "[PAD]" : "<pad>", .end = is_modern ? "[SEP]" : "</s>"});
}

/// A tokeniser, the ids of padding and of what ends a text in its file, and what hides tokens.
struct EncoderTokens {
  const char* kind;
  int32_t padding, end;
  const char* mask;
};
std::ostream& operator<<(std::ostream& out, const EncoderTokens& tokens) { return out << tokens.kind; }

class RowsLikeTransformers : public ::testing::TestWithParam<EncoderTokens> {};

TEST_P(RowsLikeTransformers, TextsAndPairs) {
  const auto& [kind, padding, end, mask] = GetParam();
  const auto vocabulary = encoder_vocabulary(kind);
  const std::vector<int32_t> file_ids =
      file_ids_of({.size = vocabulary->size(), .begin = padding, .end = end});
  const SpecialTokens special = find_special_tokens({}, *vocabulary, {});
  EXPECT_EQ(vocabulary->piece(find_mask("", *vocabulary)), mask);
  const json pairs = json::parse(std::ifstream(encoder_directory(kind) + "/pairs.json"));
  ASSERT_GT(pairs.size(), 5);
  for (const json& pair : pairs) {
    std::optional<std::vector<int32_t>> second;
    if (!pair[1].is_null()) second = vocabulary->encode(pair[1].get<std::string>());
    const TokenRow row = joined_row(vocabulary->encode(pair[0].get<std::string>()), second, special, 64);
    std::vector<int32_t> ids;
    for (const int32_t id : row.ids) ids.push_back(file_ids[static_cast<size_t>(id)]);
    EXPECT_EQ(ids, pair[2].get<std::vector<int32_t>>()) << pair[0];
  }
}

INSTANTIATE_TEST_SUITE_P(HuggingFace, RowsLikeTransformers,
                         ::testing::Values(EncoderTokens{"roberta", 1, 2, "<mask>"},
                                           EncoderTokens{"xlm_roberta", 1, 2, "<mask>"},
                                           EncoderTokens{"modernbert", 296, 295, "[MASK]"}),
                         [](const auto& tokens) { return std::string(tokens.param.kind); });

TEST(SpecialTokens, AreThoseThatTheVocabularyHas) {
  const WordPieceVocabulary bert("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n", "vocab.txt", {});
  SpecialTokens special = find_special_tokens({}, bert, {});
  EXPECT_EQ(bert.piece(special.start) + bert.piece(special.separator), "[CLS][SEP]");
  EXPECT_EQ(special.around_pair(), 3);
  EXPECT_EQ(bert.piece(find_mask("", bert)), "[MASK]");
  EXPECT_EQ(find_special_tokens({.start = {}, .separator = {}, .between = 3}, bert, {}).around_pair(), 5);

  const auto roberta = encoder_vocabulary("roberta");
  special = find_special_tokens({}, *roberta, {});
  EXPECT_EQ(roberta->piece(special.start) + roberta->piece(special.separator), "<s></s>");
  EXPECT_EQ(special.around_pair(), 4);
  special = find_special_tokens({.start = "<unk>", .separator = {}}, *roberta, {});
  EXPECT_EQ(roberta->piece(special.start), "<unk>");
  EXPECT_EQ(special.between, 1);
}

TEST(SpecialTokens, AVocabularyWithoutAMaskSaysSo) {
  const WordPieceVocabulary vocabulary("[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n", "vocab.txt", {});
  EXPECT_THAT(failure([&] { find_mask("", vocabulary); }), HasSubstr("no piece `[MASK]` or `<mask>`"));
  EXPECT_THAT(failure([&] { find_mask("<hole>", vocabulary); }), HasSubstr("no piece `<hole>`"));
}

TEST(SpecialTokens, OfAPairBothSeparatorsCountForItsLength) {
  const SpecialTokens special{.start = 7, .separator = 8, .between = 2};
  const TokenRow row = joined_row({20, 21, 22}, std::vector<int32_t>{30, 31}, special, 7);
  EXPECT_THAT(row.ids, ::testing::ElementsAre(7, 20, 21, 8, 8, 30, 8));
  EXPECT_EQ(row.second, 5);
}

}  // namespace
}  // namespace mtf
