#include "data/vocabulary/first_token.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "data/text/token_words.h"
#include "data/vocabulary/byte_vocabulary.h"
#include "data/vocabulary/extra_ids.h"
#include "data/vocabulary/marian_vocabulary.h"
#include "tests/support/failure.h"

namespace mtf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Bytes behind `<extra_id_0>`, which has the id 259.
std::unique_ptr<Vocabulary> bytes_behind_a_token() {
  return with_first_token(with_extra_ids(std::make_unique<ByteVocabulary>(), 1), "<extra_id_0>", {});
}

TEST(FirstToken, StandsBeforeEachTextThatHasTokens) {
  const auto vocabulary = bytes_behind_a_token();
  EXPECT_EQ(vocabulary->first_token(), 259);
  EXPECT_THAT(vocabulary->encode("ab"), ElementsAre(259, 100, 101));
  EXPECT_THAT(vocabulary->encode(""), IsEmpty());
  EXPECT_EQ(vocabulary->size(), 260);
  EXPECT_EQ(with_first_token(std::make_unique<ByteVocabulary>(), std::nullopt, {})->first_token(),
            std::nullopt);
}

TEST(FirstToken, IsNoPartOfTheText) {
  const auto vocabulary = bytes_behind_a_token();
  EXPECT_EQ(vocabulary->decode(std::vector<int32_t>{259, 100, 101, 1, 100}), "ab");
  EXPECT_EQ(vocabulary->decode(std::vector<int32_t>{100}), "a");
  EXPECT_EQ(vocabulary->decode(std::vector<int32_t>{100, 259, 101}), "ab");
}

TEST(FirstToken, BelongsToNoWord) {
  const auto vocabulary = bytes_behind_a_token();
  const std::vector<int32_t> ids = vocabulary->encode("a bc");
  EXPECT_THAT(words_of_tokens(*vocabulary, "a bc", ids), ElementsAre(kNoWord, 0, 1, 1, 1));
  EXPECT_EQ(words_of_written(*vocabulary, ids).front(), kNoWord);
}

TEST(FirstToken, ChangesTextsAndNotWhatIdsMean) {
  const auto plain = with_extra_ids(std::make_unique<ByteVocabulary>(), 1);
  const auto with = bytes_behind_a_token();
  EXPECT_NE(with->fingerprint(), plain->fingerprint());
  EXPECT_EQ(without_first_token(with->fingerprint()), plain->fingerprint());
  EXPECT_EQ(without_first_token(plain->fingerprint()), plain->fingerprint());
  EXPECT_EQ(numbering_of(with->fingerprint()), numbering_of(plain->fingerprint()));
}

TEST(FirstToken, MustBeAPieceOfTheVocabulary) {
  EXPECT_THAT(failure([] { (void)with_first_token(std::make_unique<ByteVocabulary>(), "</s>", {}); },
                      ErrorKind::kConfig),
              ::testing::HasSubstr("`first_token` is </s>, which is the end of texts"));
  EXPECT_THAT(failure([] { (void)with_first_token(std::make_unique<ByteVocabulary>(), "deu_Latn", {}); },
                      ErrorKind::kConfig),
              HasSubstr("the vocabulary has no piece `deu_Latn`"));
}

}  // namespace
}  // namespace mtf
