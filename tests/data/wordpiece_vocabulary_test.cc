#include "data/vocabulary/wordpiece_vocabulary.h"

#include <gmock/gmock.h>

#include "engine/base/error.h"
#include "tests/support/failure.h"

namespace mtf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::string_view kPieces =
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nun\n##aff\n##able\n!\n,\nresume\nre\n##"
    "sume\nRésumé\n中\n文\nstrasse\nstraße\n\"\n##s\n##\u0301\n";

WordPieceVocabulary wordpiece(const WordPieceRules& rules = {}) { return {kPieces, "vocab.txt", rules}; }

std::vector<std::string> pieces_of(const WordPieceVocabulary& vocabulary, std::string_view text) {
  std::vector<std::string> result;
  for (const int32_t id : vocabulary.encode(text)) result.push_back(vocabulary.piece(id));
  return result;
}

TEST(WordPiece, TakesTheLongestPieceAgainAndAgain) {
  const WordPieceVocabulary vocabulary = wordpiece();
  EXPECT_EQ(vocabulary.size(), 21);
  EXPECT_THAT(vocabulary.encode("unaffable"), ElementsAre(5, 6, 7));
  EXPECT_THAT(pieces_of(vocabulary, " UNaffable,un! \t unaff"),
              ElementsAre("un", "##aff", "##able", ",", "un", "!", "un", "##aff"));
  EXPECT_THAT(pieces_of(vocabulary, "resumes"), ElementsAre("resume", "##s"));
  EXPECT_THAT(pieces_of(vocabulary, ""), ElementsAre());
  EXPECT_TRUE(vocabulary.continues_word(6));
  EXPECT_FALSE(vocabulary.continues_word(5));
}

TEST(WordPiece, AWordThatCannotBeSpelledIsUnknown) {
  const WordPieceVocabulary vocabulary = wordpiece({.longest_word = 9});
  EXPECT_THAT(pieces_of(vocabulary, "unx un"), ElementsAre("[UNK]", "un"));
  EXPECT_THAT(pieces_of(vocabulary, "unaffable unaffables"), ElementsAre("un", "##aff", "##able", "[UNK]"));
}

TEST(WordPiece, LosesAccentsWithCapitals) {
  EXPECT_THAT(pieces_of(wordpiece(), "Résumé re\u0301sume\u0301"), ElementsAre("resume", "resume"));
  EXPECT_THAT(pieces_of(wordpiece(), "STRASSE Straße"), ElementsAre("strasse", "straße"));
  EXPECT_THAT(pieces_of(wordpiece({.lowercase = false, .strip_accents = false}), "Résumé resume RESUME"),
              ElementsAre("Résumé", "resume", "[UNK]"));
  EXPECT_THAT(pieces_of(wordpiece({.lowercase = true, .strip_accents = false}), "Resume\u0301"),
              ElementsAre("resume", "##\u0301"));
}

TEST(WordPiece, DividesAtChineseCharactersPunctuationAndBlanks) {
  EXPECT_THAT(pieces_of(wordpiece(), "un中文un"), ElementsAre("un", "中", "文", "un"));
  EXPECT_THAT(pieces_of(wordpiece({.chinese_characters = false}), "中文 中"), ElementsAre("[UNK]", "中"));
  EXPECT_THAT(pieces_of(wordpiece(), "\"un\"¿un"), ElementsAre("\"", "un", "\"", "[UNK]", "un"));
  EXPECT_THAT(pieces_of(wordpiece(), "un\u00a0un\u3000un\u2028un"), ElementsAre("un", "un", "un", "un"));
}

TEST(WordPiece, DropsControlCharactersAndBytesThatAreNoUtf8) {
  using std::string_view_literals::operator""sv;
  EXPECT_THAT(pieces_of(wordpiece(), "u\x01n\u200d\ufeff\0 un\ufffd\x80"sv), ElementsAre("un", "un"));
}

TEST(WordPiece, DecodesWords) {
  EXPECT_EQ(wordpiece().decode(std::vector<int32_t>{2, 5, 6, 7, 9, 10, 3, 0, 0, 99, -1}),
            "unaffable , resume");
}

TEST(WordPiece, AnotherFileIsRefused) {
  const auto open = [](std::string_view lines) { WordPieceVocabulary(lines, "vocab.txt", {}); };
  EXPECT_THAT(failure([&] { open("the\na\n"); }), HasSubstr("the first line is `the`"));
  EXPECT_THAT(failure([&] { open(""); }), HasSubstr("no WordPiece vocabulary"));
  EXPECT_THAT(failure([&] { open("[PAD]\nthe\n"); }), HasSubstr("no piece [UNK]"));
}

TEST(WordPiece, RulesArePartOfTheFingerprint) {
  EXPECT_NE(wordpiece().fingerprint(), wordpiece({.lowercase = false}).fingerprint());
  EXPECT_EQ(wordpiece().fingerprint(), wordpiece().fingerprint());
}

}  // namespace
}  // namespace mtf
