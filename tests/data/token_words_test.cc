#include "data/text/token_words.h"

#include <gmock/gmock.h>

#include <fstream>
#include <memory>
#include <sstream>

#include "data/vocabulary/byte_vocabulary.h"
#include "data/vocabulary/hugging_face_vocabulary.h"
#include "data/vocabulary/sentencepiece_vocabulary.h"
#include "data/vocabulary/t2t_vocabulary.h"
#include "data/vocabulary/train_vocabulary.h"
#include "data/vocabulary/wordpiece_vocabulary.h"
#include "tests/data/library_model.h"
#include "tests/data/made_up_texts.h"

namespace mtf {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::string without_blanks(std::string text) {
  std::erase(text, ' ');
  return text;
}

/// Expects that the tokens of each word of a text give the word.
void expect_words(const Vocabulary& vocabulary, const std::string& text) {
  const std::vector<int32_t> ids = vocabulary.encode(text), words = words_of_tokens(vocabulary, text, ids);
  ASSERT_EQ(words.size(), ids.size());
  std::istringstream parts(text);
  std::string word;
  for (int32_t w = 0; parts >> word; ++w) {
    std::vector<int32_t> of_word;
    for (size_t i = 0; i < ids.size(); ++i) {
      if (words[i] == w) of_word.push_back(ids[i]);
    }
    EXPECT_EQ(without_blanks(vocabulary.decode(of_word)), word) << text;
  }
  EXPECT_EQ(words_of_written(vocabulary, ids), words) << text;
}

std::vector<std::unique_ptr<Vocabulary>> vocabularies_of_each_kind() {
  std::vector<std::unique_ptr<Vocabulary>> all;
  const std::vector<std::string> texts = made_up_texts(500);
  TextSample sample;
  for (const std::string& text : texts) sample.add(text);
  all.push_back(std::make_unique<ByteVocabulary>());
  for (const SentencePieceModel model : {SentencePieceModel::kUnigram, SentencePieceModel::kBpe})
    all.push_back(std::make_unique<SentencePieceVocabulary>(
        train_sentencepiece(sample, {.size = 400, .model = model}), "test.model"));
  // Here a word that is encoded by itself has other tokens.
  all.push_back(
      std::make_unique<SentencePieceVocabulary>(library_model(texts, {{"vocab_size", "150"},
                                                                      {"pad_id", "0"},
                                                                      {"eos_id", "1"},
                                                                      {"unk_id", "2"},
                                                                      {"bos_id", "-1"},
                                                                      {"add_dummy_prefix", "false"},
                                                                      {"remove_extra_whitespaces", "false"}}),
                                                "plain.model"));
  for (const char* name : {"gpt2", "llama2", "llama3"}) {
    HuggingFaceRules rules{.begin = "<s>", .end = "</s>"};
    if (std::string(name) == "gpt2") rules = {.end = "<|endoftext|>"};
    all.push_back(read_hugging_face_vocabulary(
        std::string(MTF_SOURCE_DIR "/tests/golden/hf_tokenizers/") + name + ".json", rules));
  }
  return all;
}

TEST(TokenWords, AreTheWordsBetweenBlanks) {
  for (const auto& vocabulary : vocabularies_of_each_kind()) {
    for (const std::string& text : made_up_texts(20)) expect_words(*vocabulary, text);
    const std::string marks = "don't stop, well-known: 3.14 (a) !";
    if (vocabulary->decode(vocabulary->encode(marks)) == marks) expect_words(*vocabulary, marks);
  }
}

TEST(TokenWords, BlanksBelongToTheWordBehindThem) {
  const ByteVocabulary bytes;
  const std::string text = "  ab \t c ";
  EXPECT_THAT(words_of_tokens(bytes, text, bytes.encode(text)), ElementsAre(0, 0, 0, 0, 1, 1, 1, 1, 1));
  EXPECT_THAT(words_of_tokens(bytes, " ", bytes.encode(" ")), ElementsAre(kNoWord));
  EXPECT_THAT(words_of_tokens(bytes, "", {}), IsEmpty());
}

TEST(TokenWords, ATextThatIsCutHasTheWordsOfItsBeginning) {
  const ByteVocabulary bytes;
  EXPECT_THAT(words_of_tokens(bytes, "ab cd ef", bytes.encode("ab c")), ElementsAre(0, 0, 1, 1));
}

TEST(TokenWords, PunctuationBelongsToTheWordThatItIsWrittenIn) {
  const WordPieceVocabulary vocabulary("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nun\n##aff\n,\n!\n", "vocab.txt",
                                       {});
  const std::string text = "unaff,un! un x";
  EXPECT_THAT(words_of_tokens(vocabulary, text, vocabulary.encode(text)), ElementsAre(0, 0, 0, 0, 0, 1, 2));
}

/// T2T makes one token of what stands between letters, with blanks.
TEST(TokenWords, ATokenBelongsToTheWordInWhichItBegins) {
  std::string file;
  for (const char* subword : {"<pad>", "<EOS>", "\\", "_", "u", ";",  "0",  "1",   "2",  "3", "4",
                              "5",     "6",     "7",  "8", "9", "a_", "b_", ", _", ",_", ",", " "})
    file += "'" + std::string(subword) + "'\n";
  const T2tVocabulary vocabulary(file, "test.subwords");
  const std::vector<int32_t> ids = vocabulary.encode("a, b a");
  ASSERT_EQ(ids.size(), 4u);
  EXPECT_THAT(words_of_tokens(vocabulary, "a, b a", ids), ElementsAre(0, 0, 1, 2));
  EXPECT_THAT(words_of_written(vocabulary, ids), ElementsAre(0, 0, 1, 2));
}

TEST(TokenWords, WrittenTextsEndAtTheEndOfSequence) {
  const ByteVocabulary bytes;
  std::vector<int32_t> ids = bytes.encode("a \xC3\xA4");
  ids.insert(ids.end(), {kEosId, ids[0]});
  EXPECT_THAT(words_of_written(bytes, ids), ElementsAre(0, 1, 1, 1, kNoWord, kNoWord));
}

}  // namespace
}  // namespace mtf
