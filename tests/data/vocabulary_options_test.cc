#include "data/vocabulary/vocabulary_options.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "data/vocabulary/train_vocabulary.h"
#include "engine/config/load.h"
#include "engine/config/node.h"
#include "tests/data/made_up_texts.h"
#include "tests/support/failure.h"
#include "tests/support/problem_texts.h"

namespace mtf {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct Section {
  std::optional<VocabularyChoice> vocabulary;
};

void describe(config::Visitor& visit, Section& options) {
  visit("vocabulary", options.vocabulary, "tokens of texts");
}

/// Parses options from the value of `vocabulary`; `errors` receives the errors as text.
VocabularyChoice parse_choice(const std::string& value, std::string* errors = nullptr) {
  Diagnostics diagnostics;
  const config::Node node = config::parse_yaml("vocabulary: " + value, "test.yaml", diagnostics);
  const auto section = config::parse<Section>(node, diagnostics);
  const std::string text = lines_of(diagnostics.errors());
  if (errors) {
    *errors = text;
  } else {
    EXPECT_EQ(text, "");
  }
  return section.vocabulary.value_or(VocabularyChoice());
}

std::string error_of(const std::string& value) {
  std::string errors;
  parse_choice(value, &errors);
  return errors;
}

SentencePieceOptions pieces_of(const std::string& value) {
  return *by_side(parse_choice(value)).targets.get_if<SentencePieceOptions>();
}

int64_t target_size(const std::string& value) {
  return vocabulary_size(by_side(parse_choice(value)).targets);
}

std::string options_failure(const std::string& value, ErrorKind kind = ErrorKind::kData) {
  return failure([&] { read_vocabulary(by_side(parse_choice(value)).targets); }, kind);
}

TEST(VocabularyOptions, AWordIsTheTypeWithItsDefaults) {
  EXPECT_EQ(target_size("sentencepiece"), 32000);
  EXPECT_EQ(target_size("bytes"), 259);
  EXPECT_FALSE(are_apart(parse_choice("bytes")));
  const SentencePieceOptions options = pieces_of("sentencepiece");
  EXPECT_EQ(options.model, SentencePieceModel::kUnigram);
  EXPECT_TRUE(options.byte_fallback);
  EXPECT_TRUE(options.is_trained());
}

TEST(VocabularyOptions, SizeNeedsNoFile) {
  EXPECT_EQ(target_size("{type: sentencepiece, size: 8000}"), 8000);
  EXPECT_EQ(target_size("{type: sentencepiece, size: 8000, path: /absent/x.model}"), 8000);
  EXPECT_EQ(
      target_size("{type: hugging_face, path: /absent/tokenizer.json, begin: <s>, end: </s>, size: 32000}"),
      32000);
  EXPECT_EQ(target_size("{type: hugging_face, path: /absent/tokenizer.json, end: </s>, size: 50257}"), 50258);
  EXPECT_EQ(target_size("{type: marian, path: /absent/source.spm, ids: /absent/vocab.json, size: 58101}"),
            58101);
  const SentencePieceOptions options = pieces_of(
      "{type: sentencepiece, model: bpe, character_coverage: 1, byte_fallback: false, normalization: none}");
  EXPECT_EQ(options.model, SentencePieceModel::kBpe);
  EXPECT_EQ(options.normalization, TextNormalization::kNone);
}

TEST(VocabularyOptions, TwoLanguagesMayBeApart) {
  const VocabularyChoice options = parse_choice("{inputs: bytes, targets: {type: sentencepiece, size: 500}}");
  EXPECT_TRUE(are_apart(options));
  EXPECT_EQ(vocabulary_size(by_side(options).inputs), 259);
  EXPECT_EQ(vocabulary_size(by_side(options).targets), 500);
  VocabularyChoice files =
      parse_choice("{inputs: {type: t2t, path: x}, targets: {type: sentencepiece, path: y}}");
  ASSERT_EQ(paths_of(files).size(), 2u);
  EXPECT_EQ(paths_of(files)[1]->text, "y");
  files = parse_choice("{type: marian, path: x.spm, ids: x.json}");
  ASSERT_EQ(paths_of(files).size(), 2u);
  EXPECT_EQ(paths_of(files)[1]->text, "x.json");
  EXPECT_EQ(trained_vocabulary_path(options, Side::kTargets, "runs/x"), "runs/x/vocabulary.targets.model");
  EXPECT_EQ(trained_vocabulary_path(parse_choice("sentencepiece"), Side::kTargets, "runs/x"),
            "runs/x/vocabulary.model");
}

TEST(VocabularyOptions, AreWrittenAsTheyAreRead) {
  for (const char* value :
       {"bytes", "{type: sentencepiece, size: 500, path: x.model}", "{type: t2t, path: y}",
        "{type: hugging_face, path: z.json, begin: <s>, end: </s>}",
        "{type: marian, path: x.spm, ids: x.json}", "{inputs: bytes, targets: sentencepiece}"}) {
    Section section{parse_choice(value)};
    const config::Node dumped = config::dump(section);
    Diagnostics diagnostics;
    const auto again = config::parse<Section>(dumped, diagnostics);
    EXPECT_FALSE(diagnostics.has_errors()) << value;
    EXPECT_EQ(by_side(*again.vocabulary).targets.type(), by_side(*section.vocabulary).targets.type());
    EXPECT_EQ(are_apart(*again.vocabulary), are_apart(*section.vocabulary));
  }
}

TEST(VocabularyOptions, MistakesAreNamedAtTheirPlace) {
  EXPECT_THAT(error_of("{type: tokenizer_json, path: x}"),
              AllOf(HasSubstr("test.yaml:1:20"), HasSubstr("unknown type `tokenizer_json`"),
                    HasSubstr("`hugging_face`")));
  EXPECT_THAT(error_of("{type: hugging_face, path: x}"), HasSubstr("end"));
  EXPECT_THAT(error_of("t2t"), HasSubstr("path"));
  EXPECT_THAT(error_of("sentencepeice"), HasSubstr("did you mean `sentencepiece`?"));
  EXPECT_THAT(error_of("{type: sentencepiece, sise: 3}"), HasSubstr("did you mean `vocabulary.size`?"));
  EXPECT_THAT(error_of("{type: sentencepiece, size: 3}"), HasSubstr("test.yaml:1:41"));
  EXPECT_THAT(error_of("{type: sentencepiece, character_coverage: 0.5}"), HasSubstr("0.98"));
  EXPECT_THAT(error_of("{inputs: bytes}"), HasSubstr("targets"));
  EXPECT_THAT(error_of("{size: 8000}"), AllOf(HasSubstr("needs a `type`"), HasSubstr("`sentencepiece`")));
}

class VocabularyFiles : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(directory_); }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string directory_ =
      ::testing::TempDir() + ::testing::UnitTest::GetInstance()->current_test_info()->name() + "/";
};

TEST_F(VocabularyFiles, AreFoundAndTheirSizeCompared) {
  TextSample sample;
  for (const std::string& text : made_up_texts(300)) sample.add(text);
  write_vocabulary(train_sentencepiece(sample, {.size = 350}), directory_ + "x.model");
  EXPECT_EQ(target_size("{type: sentencepiece, path: " + directory_ + "x.model}"), 350);
  EXPECT_THAT(options_failure("{type: sentencepiece, size: 400, path: " + directory_ + "x.model}"),
              AllOf(HasSubstr("test.yaml:1:52: "), HasSubstr("x.model has 350 pieces, but `size` says 400"),
                    HasSubstr("`size: 350`")));
}

TEST_F(VocabularyFiles, OfHuggingFaceTellTheirSize) {
  const std::string tokenizer = MTF_SOURCE_DIR "/tests/golden/hf_tokenizers/llama2.json";
  EXPECT_EQ(target_size("{type: hugging_face, begin: <s>, end: </s>, path: " + tokenizer + "}"), 484);
  EXPECT_EQ(target_size("{type: hugging_face, end: </s>, path: " + tokenizer + "}"), 485);
  EXPECT_THAT(options_failure("{type: hugging_face, end: </s>, size: 100, path: " + tokenizer + "}"),
              AllOf(HasSubstr("test.yaml:1:"), HasSubstr("`size: 480` or more")));
  EXPECT_THAT(
      options_failure("{type: hugging_face, end: <eos>, path: " + tokenizer + "}", ErrorKind::kConfig),
      AllOf(HasSubstr("test.yaml:1:"), HasSubstr("has no token `<eos>`, which `end` names")));
}

TEST_F(VocabularyFiles, OfMarianAreNamedEachAtItsPlace) {
  const std::string golden = MTF_SOURCE_DIR "/tests/golden/hf_marian/";
  const auto choice = [&](const std::string& path, const std::string& ids) {
    return "{type: marian, path: " + path + ", ids: " + ids + "}";
  };
  EXPECT_EQ(target_size(choice(golden + "source.spm", golden + "vocab.json")), 64);
  EXPECT_THAT(options_failure(choice(golden + "absent.spm", golden + "vocab.json"), ErrorKind::kConfig),
              HasSubstr("there is no file"));
  std::ofstream(directory_ + "x.json") << "[]";
  EXPECT_THAT(options_failure("{type: marian, ids: " + directory_ + "x.json, path: absent.spm}"),
              AllOf(HasSubstr("test.yaml:1:33: "), HasSubstr("x.json: it has no tokens")));
}

TEST_F(VocabularyFiles, ThatAreMissingOrDamagedAreNamedAtTheirPlace) {
  std::ofstream(directory_ + "x.model") << "no model";
  EXPECT_THAT(options_failure("{type: sentencepiece, path: " + directory_ + "x.modell}", ErrorKind::kConfig),
              AllOf(HasSubstr("test.yaml:1:"), HasSubstr("there is no file"), HasSubstr("did you mean")));
  EXPECT_THAT(options_failure("{type: sentencepiece, path: " + directory_ + "x.model}"),
              AllOf(HasSubstr("test.yaml:1:41: "), HasSubstr("x.model: no SentencePiece model")));
  EXPECT_THAT(options_failure("{type: t2t, path: " + directory_ + "x.model}"),
              AllOf(HasSubstr("test.yaml:1:31: "), HasSubstr("no file of tensor2tensor's subwords")));
}

}  // namespace
}  // namespace mtf
