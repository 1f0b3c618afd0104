#include "data/vocabulary/byte_vocabulary.h"

#include <gmock/gmock.h>

#include <random>

namespace mtf {
namespace {

using ::testing::ElementsAre;

TEST(ByteVocabulary, ByteBIsIdBPlus3) {
  const ByteVocabulary vocabulary;
  EXPECT_EQ(vocabulary.size(), 259);
  EXPECT_THAT(vocabulary.encode("Hi\n"), ElementsAre('H' + 3, 'i' + 3, '\n' + 3));
  EXPECT_THAT(vocabulary.encode("ä"), ElementsAre(0xC3 + 3, 0xA4 + 3));
  EXPECT_THAT(vocabulary.encode(""), ElementsAre());
}

TEST(ByteVocabulary, AnyBytesComeBack) {
  const ByteVocabulary vocabulary;
  std::mt19937 random(1);
  for (int round = 0; round < 100; ++round) {
    std::string text(random() % 200, '\0');
    for (char& byte : text) byte = static_cast<char>(random());
    EXPECT_EQ(vocabulary.decode(vocabulary.encode(text)), text);
  }
}

TEST(ByteVocabulary, DecodingEndsAtTheEndOfSequence) {
  const std::vector<int32_t> ids = {0, 'a' + 3, 2, -5, 259, 1000, 'b' + 3, kEosId, 'c' + 3};
  EXPECT_EQ(ByteVocabulary().decode(ids), "ab");
}

TEST(ByteVocabulary, PiecesCanBeRead) {
  const ByteVocabulary vocabulary;
  EXPECT_EQ(vocabulary.piece(0), "<pad>");
  EXPECT_EQ(vocabulary.piece(1), "</s>");
  EXPECT_EQ(vocabulary.piece('a' + 3), "a");
  EXPECT_EQ(vocabulary.piece(' ' + 3), "<0x20>");
  EXPECT_EQ(vocabulary.piece(0xE4 + 3), "<0xE4>");
  EXPECT_EQ(vocabulary.piece(259), "");
}

}  // namespace
}  // namespace mtf
