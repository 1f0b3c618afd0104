#include "data/vocabulary/t2t_vocabulary.h"

#include <gmock/gmock.h>

#include <random>

#include "engine/base/error.h"
#include "tests/data/made_up_texts.h"
#include "tests/support/failure.h"

namespace mtf {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// The entries of every vocabulary file of tensor2tensor: reserved ones, and the characters that spell all
/// others.
const std::vector<std::string> kNeeded = {"<pad>", "<EOS>", "\\", "_", "u", ";", "0", "1",
                                          "2",     "3",     "4",  "5", "6", "7", "8", "9"};

enum class Quotes { kSingle, kDouble, kNone };

std::string file_of(std::vector<std::string> subwords, Quotes quotes = Quotes::kSingle) {
  subwords.insert(subwords.begin(), kNeeded.begin(), kNeeded.end());
  const std::string quote = quotes == Quotes::kSingle ? "'" : quotes == Quotes::kDouble ? "\"" : "";
  std::string file;
  for (const std::string& subword : subwords) file += quote + subword + quote + "\n";
  return file;
}

T2tVocabulary vocabulary_of(std::vector<std::string> subwords, Quotes quotes = Quotes::kSingle) {
  return T2tVocabulary(file_of(std::move(subwords), quotes), "test.subwords");
}

std::vector<std::string> pieces(const Vocabulary& vocabulary, std::string_view text) {
  std::vector<std::string> result;
  for (const int32_t id : vocabulary.encode(text)) result.push_back(vocabulary.piece(id));
  return result;
}

TEST(T2tVocabulary, IdsAreTheLinesOfTheFile) {
  const T2tVocabulary vocabulary = vocabulary_of({"Haus_", "Ha", "us_", "a", "s", "H"});
  EXPECT_EQ(vocabulary.size(), 22);
  EXPECT_THAT(vocabulary.encode("Haus"), ElementsAre(16));
  EXPECT_EQ(vocabulary.piece(0), "<pad>");
  EXPECT_EQ(vocabulary.piece(17), "Ha");
}

TEST(T2tVocabulary, TheLongestSubwordIsTakenFirst) {
  const T2tVocabulary vocabulary = vocabulary_of({"a", "b", "c", "ab", "abc", "bc_", "c_"});
  EXPECT_THAT(pieces(vocabulary, "abcab"), ElementsAre("abc", "ab", "_"));
  EXPECT_THAT(pieces(vocabulary, "abbc"), ElementsAre("ab", "bc_"));
}

TEST(T2tVocabulary, TextsAreCutBetweenWordsAndOtherCharacters) {
  const T2tVocabulary vocabulary =
      vocabulary_of({"Dude_", "that_", "s_", "so_", "cool_", " - _", "'_", "._", " _", "D", "d", "e",
                     "t",     "h",     "a",  "s",   "o",     "c",    "l",  " ",  "-",  "'", "."});
  EXPECT_THAT(pieces(vocabulary, "Dude - that's so cool."),
              ElementsAre("Dude_", " - _", "that_", "'_", "s_", "so_", "cool_", "._"));
  // A single blank is omitted only between two words.
  EXPECT_THAT(pieces(vocabulary, " so "), ElementsAre(" _", "so_", " _"));
  EXPECT_THAT(pieces(vocabulary, " "), ElementsAre(" _"));
}

TEST(T2tVocabulary, EscapesAreThoseOfTensor2Tensor) {
  const T2tVocabulary vocabulary = vocabulary_of({"a", "b", "\n"});
  EXPECT_THAT(pieces(vocabulary, "a_b"), ElementsAre("a", "_", "\\", "u", "_", "b", "_"));
  EXPECT_THAT(pieces(vocabulary, "\\"), ElementsAre("\\", "\\", "_"));
  EXPECT_THAT(pieces(vocabulary, "aö"), ElementsAre("a", "\\", "2", "4", "6", ";", "_"));
  // Escaped although the character is in the vocabulary.
  EXPECT_THAT(pieces(vocabulary, "\n"), ElementsAre("\\", "1", "0", ";", "_"));
  EXPECT_THAT(pieces(vocabulary, "😀"), ElementsAre("\\", "1", "2", "8", "5", "1", "2", ";", "_"));
}

TEST(T2tVocabulary, EscapesAreReadBack) {
  const T2tVocabulary vocabulary = vocabulary_of({"\\9", "\\99999999999999999999;_", "\\x_", "a"});
  EXPECT_EQ(vocabulary.decode(std::vector<int32_t>{17}), "〓");
  EXPECT_EQ(vocabulary.decode(std::vector<int32_t>{18}), "\\x");
  EXPECT_EQ(vocabulary.decode(std::vector<int32_t>{16, 15, 5, 3}), "c");  // \99; in two subwords
}

TEST(T2tVocabulary, UnicodeComesBack) {
  const T2tVocabulary vocabulary = vocabulary_of({"a", "b", "ab_", " ", "ü", ",", ", _", "日本"});
  const std::vector<std::string> parts = {"a",
                                          "b",
                                          "ab",
                                          " ",
                                          "  ",
                                          "ü",
                                          ",",
                                          "_",
                                          "\\",
                                          "\\u",
                                          "\\7;",
                                          "\n",
                                          "\t",
                                          "Ω",
                                          "日本",
                                          "e\u0301",
                                          "\u00a0",
                                          "😀",
                                          std::string(1, '\0'),
                                          "²"};
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    std::string text = round % 2 == 0 ? random_unicode(random) : "";
    for (uint32_t left = random() % 12; left > 0; --left) text += parts[random() % parts.size()];
    EXPECT_EQ(vocabulary.decode(vocabulary.encode(text)), text);
  }
}

TEST(T2tVocabulary, BytesThatAreNoUtf8BecomeTheReplacementCharacter) {
  const T2tVocabulary vocabulary = vocabulary_of({"a"});
  EXPECT_EQ(vocabulary.decode(vocabulary.encode("a\xff\xc3")), "a\uFFFD\uFFFD");
}

TEST(T2tVocabulary, DecodingEndsAtTheEndOfSequence) {
  const T2tVocabulary vocabulary = vocabulary_of({"a_", "b_"});
  EXPECT_EQ(vocabulary.decode(std::vector<int32_t>{16, 0, -1, 99, 17, 1, 16}), "a b");
}

TEST(T2tVocabulary, AllStylesOfQuotingAreTheSameVocabulary) {
  const std::vector<std::string> subwords = {"it's_", "\"_", " - _", "a"};
  const T2tVocabulary single = vocabulary_of(subwords, Quotes::kSingle);
  const T2tVocabulary twofold = vocabulary_of(subwords, Quotes::kDouble);
  EXPECT_EQ(single.piece(16), "it's_");
  EXPECT_EQ(single.piece(18), " - _");
  EXPECT_EQ(single.fingerprint(), twofold.fingerprint());
  EXPECT_EQ(vocabulary_of({"ab_", "a"}, Quotes::kNone).fingerprint(),
            vocabulary_of({"ab_", "a"}).fingerprint());
  EXPECT_NE(vocabulary_of({"ab_"}).fingerprint(), vocabulary_of({"ba_"}).fingerprint());
}

TEST(T2tVocabulary, OldFilesEndReservedTokensWithAnUnderscore) {
  std::string file = file_of({"a_"});
  file.replace(0, 15, "'<pad>_'\n'<EOS>_'");
  EXPECT_THAT(T2tVocabulary(file, "old").encode("a"), ElementsAre(16));
}

std::string reading_failure(const std::string& file) {
  return failure([&] { T2tVocabulary(file, "x.subwords"); }, ErrorKind::kData);
}

TEST(T2tVocabulary, OtherFilesAreRefused) {
  EXPECT_THAT(reading_failure(""), AllOf(HasSubstr("x.subwords: "), HasSubstr("the file is empty")));
  EXPECT_THAT(reading_failure("the_\nof_\n"), HasSubstr("the first line is `the_`"));
  EXPECT_THAT(reading_failure("### SubwordTextEncoder\n### Metadata: {}\n'the_'\n"),
              HasSubstr("this is a file of TensorFlow Datasets"));
  EXPECT_THAT(reading_failure("'<pad>'\n'<EOS>'\n'the_'\n"), HasSubstr("the subword `\\` is missing"));
  EXPECT_THAT(reading_failure(file_of({"a_", std::string(5000, 'x')})),
              HasSubstr("x.subwords: line 18: a subword of 5000 bytes; subwords of at most 4096 bytes"));
}

}  // namespace
}  // namespace mtf
