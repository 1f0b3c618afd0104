#include "data/vocabulary/train_vocabulary.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>
#include <thread>

#include "data/input_file.h"
#include "engine/base/error.h"
#include "engine/base/file_lock.h"
#include "tests/data/made_up_texts.h"
#include "tests/support/failure.h"

namespace mtf {
namespace {

SentencePieceOptions pieces(int64_t size) {
  SentencePieceOptions options;
  options.size = size;
  return options;
}

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

namespace fs = std::filesystem;

class TrainVocabulary : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(directory_);
    fs::create_directories(directory_);
  }
  void TearDown() override { fs::remove_all(directory_); }

  std::string path(const std::string& name) const { return (fs::path(directory_) / name).string(); }

  std::string directory_ =
      ::testing::TempDir() + ::testing::UnitTest::GetInstance()->current_test_info()->name();
};

TextSample sample_of(const std::vector<std::string>& texts, int64_t most = TextSample::default_most) {
  TextSample sample(most);
  for (const std::string& text : texts) sample.add(text);
  return sample;
}

TEST(TextSample, KeepsAllTextsButBlankOnes) {
  const TextSample sample = sample_of({"one", "", "  ", "\t", "two"});
  EXPECT_THAT(sample.texts(), ElementsAre("one", "two"));
  EXPECT_EQ(sample.added(), 2);
}

TEST(TextSample, CutsLongTextsAtBlanksAndNeverWithinACharacter) {
  std::string words, letters;
  for (int i = 0; i < 3000; ++i) {
    words += "word ";
    letters += "日";
  }
  for (const std::string& text : {words, letters}) {
    const TextSample sample = sample_of({text});
    EXPECT_GT(sample.texts().size(), 1u);
    EXPECT_EQ(std::accumulate(sample.texts().begin(), sample.texts().end(), std::string()), text);
    for (const std::string& piece : sample.texts()) {
      EXPECT_LE(piece.size(), 4000u);
      EXPECT_EQ(piece.size() % 3, text == letters ? 0u : piece.size() % 3);
    }
  }
}

TEST(TextSample, DrawsFromAllTextsWithTheSameChance) {
  constexpr int kTexts = 20'000, kKept = 2'000;
  std::vector<std::string> texts;
  for (int i = 0; i < kTexts; ++i) texts.push_back(std::to_string(i));
  const TextSample sample = sample_of(texts, kKept);
  EXPECT_THAT(sample.texts(), SizeIs(kKept));
  EXPECT_EQ(sample.added(), kTexts);
  EXPECT_THAT(std::set<std::string>(sample.texts().begin(), sample.texts().end()), SizeIs(kKept));
  std::vector<int> of_quarter(4);
  for (const std::string& text : sample.texts()) ++of_quarter[std::stoul(text) * 4 / kTexts];
  for (const int count : of_quarter) EXPECT_NEAR(count, kKept / 4, 100);  // 5 standard deviations
  EXPECT_EQ(sample_of(texts, kKept).texts(), sample.texts());
}

TEST_F(TrainVocabulary, TheSameTextsGiveTheSameModel) {
  for (const SentencePieceModel model : {SentencePieceModel::kUnigram, SentencePieceModel::kBpe}) {
    const SentencePieceTraining options{.size = 400, .model = model};
    const TextSample sample = sample_of(made_up_texts(1000));
    EXPECT_EQ(train_sentencepiece(sample, options), train_sentencepiece(sample, options));
  }
}

TEST_F(TrainVocabulary, TextsWithTabsCount) {
  std::vector<std::string> texts;
  for (const std::string& text : made_up_texts(500)) texts.push_back(text + "\t" + text);
  const auto vocabulary_size = [&] {
    write_vocabulary(train_sentencepiece(sample_of(texts), {.size = 400}), path("x.model"));
    SentencePieceOptions file;
    file.path.text = path("x.model");
    return read_vocabulary(file)->size();
  };
  EXPECT_EQ(vocabulary_size(), 400);
}

TEST_F(TrainVocabulary, SizesThatTheTextDoesNotAllowAreRefusedWithThoseItDoes) {
  const TextSample sample = sample_of(made_up_texts(100));
  const std::string too_many = failure([&] { train_sentencepiece(sample, {.size = 32000}); });
  EXPECT_THAT(too_many, AllOf(HasSubstr("a vocabulary of 32000 pieces is more than can be made of 100 texts"),
                              HasSubstr("at most ")));
  const int64_t most = std::stoll(too_many.substr(too_many.find("at most ") + 8));
  EXPECT_NE(train_sentencepiece(sample, {.size = most}), "");
  EXPECT_THAT(failure([&] { train_sentencepiece(sample, {.size = most + 1}); }), HasSubstr("at most"));

  const std::string too_few = failure([&] { train_sentencepiece(sample, {.size = 100}); });
  EXPECT_THAT(too_few, AllOf(HasSubstr("no room for the characters"), HasSubstr("at least ")));
  const int64_t least = std::stoll(too_few.substr(too_few.find("at least ") + 9));
  EXPECT_NE(train_sentencepiece(sample, {.size = least}), "");
  EXPECT_THAT(failure([&] { train_sentencepiece(TextSample(), {.size = 400}); }),
              HasSubstr("there is no text"));
}

TEST_F(TrainVocabulary, ThePiecesAreListedBesideTheModel) {
  write_vocabulary(train_sentencepiece(sample_of(made_up_texts(500)), {.size = 400}), path("x.model"));
  const std::string list = read_file(path("x.vocab"), "", 1 << 20);
  EXPECT_TRUE(list.starts_with("<pad>\t0\n</s>\t0\n<unk>\t0\n<0x00>\t0\n")) << list.substr(0, 100);
  EXPECT_EQ(std::ranges::count(list, '\n'), 400);
  EXPECT_THAT(failure([&] { write_vocabulary("", path("x.model")); }), HasSubstr("no SentencePiece model"));
}

/// A run's texts: the inputs and targets of each example.
VocabularyTexts run_texts(const std::string& key = "some") {
  return {.for_each =
              [](const std::function<void(Side, std::string_view)>& use) {
                for (const std::string& text : made_up_texts(500)) {
                  use(Side::kInputs, text);
                  use(Side::kTargets, "targets " + text + "!");
                }
              },
          .key = [key] { return key; },
          .may_replace = true};
}

TEST_F(TrainVocabulary, AMissingVocabularyIsTrainedOnceOnBothSides) {
  const VocabularyChoice options = LanguageVocabulary(pieces(400));
  std::vector<std::string> lines;
  const auto train = [&] {
    train_vocabularies(options, directory_, run_texts(),
                       [&](const std::string& line) { lines.push_back(line); });
  };
  train();
  EXPECT_THAT(lines, ElementsAre(HasSubstr("training a vocabulary of 400 pieces on 1,000 texts"),
                                 HasSubstr(path("vocabulary.model"))));
  lines.clear();
  train();
  EXPECT_THAT(lines, IsEmpty());
  const auto vocabularies = read_vocabularies(options, directory_);
  EXPECT_EQ(vocabularies.inputs, vocabularies.targets);
  EXPECT_EQ(vocabularies.inputs->size(), 400);
  EXPECT_EQ(vocabularies.inputs->decode(vocabularies.inputs->encode("targets!")), "targets!");
  EXPECT_THAT(std::vector<fs::path>(fs::directory_iterator(directory_), {}), SizeIs(3));  // no lock is left
}

TEST_F(TrainVocabulary, TwoLanguagesApartAreTrainedOnTheirOwnTexts) {
  const VocabularyChoice options = TwoVocabularies{pieces(350), pieces(420)};
  train_vocabularies(options, directory_, run_texts(), [](const std::string&) {});
  const auto vocabularies = read_vocabularies(options, directory_);
  EXPECT_EQ(vocabularies.inputs->size(), 350);
  EXPECT_EQ(vocabularies.targets->size(), 420);
  EXPECT_LT(vocabularies.targets->encode("targets").size(), vocabularies.inputs->encode("targets").size());
  EXPECT_TRUE(fs::exists(path("vocabulary.inputs.model")) && fs::exists(path("vocabulary.targets.model")));
}

TEST_F(TrainVocabulary, OnlyWhatHasNoFileIsTrained) {
  const VocabularyChoice options = TwoVocabularies{BytesOptions(), pieces(400)};
  train_vocabularies(options, directory_, run_texts(), [](const std::string&) {});
  EXPECT_FALSE(fs::exists(path("vocabulary.inputs.model")));
  const auto vocabularies = read_vocabularies(options, directory_);
  EXPECT_EQ(vocabularies.inputs->size(), 259);
  EXPECT_EQ(vocabularies.targets->size(), 400);
}

TEST_F(TrainVocabulary, FailuresLeaveNothingBehindAndNameTheirPlace) {
  const VocabularyChoice options = LanguageVocabulary(pieces(32000));
  Mark mark;
  mark.file = "run.yaml";
  mark.line = 3;
  mark.column = 5;
  EXPECT_THAT(failure([&] {
                train_vocabularies(
                    options, directory_, run_texts(), [](const std::string&) {}, mark);
              }),
              AllOf(HasSubstr("run.yaml:3:5: "), HasSubstr("at most")));
  EXPECT_TRUE(fs::is_empty(directory_));
  const std::string below = path("runs/new");
  failure([&] { train_vocabularies(options, below, run_texts(), [](const std::string&) {}); });
  EXPECT_TRUE(fs::is_empty(directory_));
  EXPECT_THAT(failure([&] { read_vocabularies(options, directory_, mark); }),
              AllOf(HasSubstr("run.yaml:3:5: there is no file"), HasSubstr("vocabulary.model")));
}

TEST_F(TrainVocabulary, IsLackedUntilItIsThere) {
  const VocabularyChoice trained = LanguageVocabulary(pieces(400));
  EXPECT_TRUE(lacks_vocabulary(trained, directory_));
  EXPECT_FALSE(lacks_vocabulary(LanguageVocabulary(BytesOptions()), directory_));
  train_vocabularies(trained, directory_, run_texts(), [](const std::string&) {});
  EXPECT_FALSE(lacks_vocabulary(trained, directory_));
}

TEST_F(TrainVocabulary, OneOfOtherTextsOrOptionsIsReplacedUntilTheRunHasCheckpoints) {
  SentencePieceOptions options = pieces(400);
  std::vector<std::string> lines;
  const auto train = [&](const VocabularyTexts& texts) {
    lines.clear();
    const bool replaces = replaces_vocabulary(LanguageVocabulary(options), directory_, texts);
    train_vocabularies(LanguageVocabulary(options), directory_, texts,
                       [&](const std::string& line) { lines.push_back(line); });
    return replaces;
  };
  EXPECT_FALSE(train(run_texts("first"))) << "there is none yet";
  EXPECT_FALSE(train(run_texts("first")));
  EXPECT_THAT(lines, IsEmpty());
  EXPECT_TRUE(train(run_texts("second")));
  EXPECT_THAT(lines,
              ElementsAre(HasSubstr("vocabulary.model was trained on other texts or with other options"),
                          HasSubstr("training a vocabulary"), HasSubstr("vocabulary trained")));
  options.extra_ids = 10;  // ids behind those of the file
  EXPECT_FALSE(train(run_texts("second")));
  options.model = SentencePieceModel::kBpe;
  EXPECT_TRUE(train(run_texts("second")));
  options.size = 410;
  VocabularyTexts with_checkpoints = run_texts("third");
  with_checkpoints.may_replace = false;
  EXPECT_FALSE(train(with_checkpoints));
  EXPECT_THAT(lines, IsEmpty());
  EXPECT_TRUE(train(run_texts("third")));
  EXPECT_EQ(read_vocabularies(LanguageVocabulary(options), directory_).targets->size(), 420);
}

TEST_F(TrainVocabulary, IsAnotherOneThanThatOfARunUnlessTextsAndOptionsAreTheSame) {
  const VocabularyTexts texts = run_texts("first");
  train_vocabularies(LanguageVocabulary(pieces(400)), directory_, texts, [](const std::string&) {});
  const std::string own = directory_ + "/own";
  const auto is_other = [&](const SentencePieceOptions& options, const VocabularyTexts& read) {
    return trains_other_vocabularies(LanguageVocabulary(options), own, read, directory_);
  };
  EXPECT_FALSE(is_other(pieces(400), texts));
  EXPECT_TRUE(is_other(pieces(300), texts));
  EXPECT_TRUE(is_other(pieces(400), run_texts("second")));
  EXPECT_FALSE(trains_other_vocabularies(LanguageVocabulary(pieces(400)), directory_, texts, own));
}

TEST_F(TrainVocabulary, AFileThatCameInAnotherWayIsNeverReplaced) {
  const VocabularyChoice options = LanguageVocabulary(pieces(400));
  const auto train = [&](const std::string& key) {
    train_vocabularies(options, directory_, run_texts(key), [](const std::string&) {});
    return read_file(path("vocabulary.model"), "", 1 << 20);
  };
  const std::string own = train_sentencepiece(sample_of(made_up_texts(300)), {.size = 350});
  write_vocabulary(own, path("vocabulary.model"));
  EXPECT_EQ(train("first"), own);
  fs::remove(path("vocabulary.model"));
  EXPECT_NE(train("first"), own);
  write_vocabulary(own, path("vocabulary.model"));  // over the one that was trained
  EXPECT_EQ(train("second"), own);
  fs::remove(path("vocabulary.model"));
  train("second");
  const std::string copy = directory_ + "/copy";  // with all that lies beside it
  fs::copy(directory_, copy);
  EXPECT_FALSE(replaces_vocabulary(options, copy, run_texts("third")));
  EXPECT_TRUE(replaces_vocabulary(options, directory_, run_texts("third")));
}

TEST_F(TrainVocabulary, AFailureAndAKillLeaveNoOtherVocabulary) {
  const auto train = [&](int64_t size, const std::string& key) {
    train_vocabularies(LanguageVocabulary(pieces(size)), directory_, run_texts(key),
                       [](const std::string&) {});
  };
  train(400, "first");
  const std::string first = read_file(path("vocabulary.model"), "", 1 << 20);
  EXPECT_THAT(failure([&] { train(32000, "second"); }), HasSubstr("at most"));
  EXPECT_FALSE(replaces_vocabulary(LanguageVocabulary(pieces(400)), directory_, run_texts("first")));
  EXPECT_EQ(read_file(path("vocabulary.model"), "", 1 << 20), first);
  train(350, "second");
  fs::remove(path("vocabulary.model"));  // as a kill before the model is written
  train(400, "first");
  EXPECT_EQ(read_file(path("vocabulary.model"), "", 1 << 20), first);
  EXPECT_FALSE(replaces_vocabulary(LanguageVocabulary(pieces(400)), directory_, run_texts("first")));
}

TEST_F(TrainVocabulary, EachOfTwoIsReplacedForItsOwnOptions) {
  train_vocabularies(TwoVocabularies{pieces(350), pieces(420)}, directory_, run_texts(),
                     [](const std::string&) {});
  const std::string inputs = read_file(path("vocabulary.inputs.model"), "", 1 << 20);
  train_vocabularies(TwoVocabularies{pieces(350), pieces(400)}, directory_, run_texts(),
                     [](const std::string&) {});
  EXPECT_EQ(read_file(path("vocabulary.inputs.model"), "", 1 << 20), inputs);
  EXPECT_EQ(read_vocabularies(TwoVocabularies{pieces(350), pieces(400)}, directory_).targets->size(), 400);
}

TEST_F(TrainVocabulary, OfSeveralProcessesOneTrains) {
  constexpr int kProcesses = 4;
  for (int i = 0; i < kProcesses; ++i) {
    if (::fork() != 0) continue;
    std::ofstream log(path("log." + std::to_string(i)));
    train_vocabularies(LanguageVocabulary(pieces(400)), directory_, run_texts(),
                       [&](const std::string& line) { log << line << std::endl; });
    const bool readable =
        read_vocabularies(LanguageVocabulary(pieces(400)), directory_).targets->size() == 400;
    log.close();
    ::_exit(readable ? 0 : 1);
  }
  for (int i = 0; i < kProcesses; ++i) {
    int status = 1;
    ASSERT_GT(::wait(&status), 0);
    EXPECT_EQ(status, 0);
  }
  int trained = 0;
  for (int i = 0; i < kProcesses; ++i)
    trained += read_file(path("log." + std::to_string(i)), "", 1 << 20).find("training a vocabulary") !=
               std::string::npos;
  EXPECT_EQ(trained, 1);
  EXPECT_FALSE(fs::exists(path("vocabulary.model.lock")));
}

TEST_F(TrainVocabulary, ALockKeepsOthersOutAndGoes) {
  const std::string lock = path("x.lock");
  std::atomic<int> inside = 0, most = 0, waited = 0;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 50; ++round) {
        const FileLock held(lock, [&] { ++waited; });
        most = std::max(most.load(), ++inside);
        std::this_thread::yield();
        --inside;
      }
    });
  }
  threads.clear();
  EXPECT_EQ(most, 1);
  EXPECT_GT(waited, 0);
  EXPECT_FALSE(fs::exists(lock));
  EXPECT_THAT(failure([&] { FileLock(path("absent/x.lock"), {}); }, ErrorKind::kSystem),
              HasSubstr("absent/x: cannot be written: No such file or directory"));
}

}  // namespace
}  // namespace mtf
