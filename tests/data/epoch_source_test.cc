#include "data/text/epoch_source.h"

#include <gmock/gmock.h>

#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <numeric>
#include <set>
#include <thread>

#include "data/draws.h"
#include "data/loader.h"
#include "data/mixed_source.h"
#include "data/vocabulary/extra_ids.h"
#include "data/vocabulary/sentencepiece_vocabulary.h"
#include "engine/base/error.h"
#include "tests/data/text_testing.h"
#include "tests/data/written_model.h"

namespace mtf {
namespace {

using ::testing::HasSubstr;

const PhiloxKey kKey = random_key("test", 1);

/// Epoch e has the numbers 1000 e, 1000 e + 1, ..., `counts[e]` of them.
OpenEpoch numbers_by_epoch(std::vector<int64_t> counts) {
  return [counts](int64_t epoch, const TextProgress&) {
    std::vector<int64_t> values(static_cast<size_t>(counts[static_cast<size_t>(epoch) % counts.size()]));
    std::iota(values.begin(), values.end(), 1000 * epoch);
    const auto bytes = std::as_bytes(std::span(values));
    return EpochRows{
        std::make_unique<MemorySource>(std::vector<Feature>{{"id", Shape{}, DType::kInt64}},
                                       std::vector<std::vector<std::byte>>{{bytes.begin(), bytes.end()}}),
        {}};
  };
}

std::vector<int64_t> numbers_of(const Source& source, int64_t epoch) {
  std::vector<int64_t> examples(static_cast<size_t>(source.examples()) + 1),
      values(static_cast<size_t>(source.examples()));
  std::iota(examples.begin(), examples.end() - 1, 0);
  const std::vector<int64_t> epochs(examples.size(), epoch);
  const FeatureSlice slice{reinterpret_cast<std::byte*>(values.data())};
  source.read_training(examples, epochs, {&slice, 1});
  return values;
}

TEST(EpochSource, SpreadsExamplesEvenlyOverTheRowsOfAnEpoch) {
  const EpochSource source(numbers_by_epoch({100, 103, 96}), kKey);
  EXPECT_EQ(source.examples(), 100);
  for (int64_t epoch = 0; epoch < 9; ++epoch) {
    const std::vector<int64_t> rows = numbers_of(source, epoch);
    const int64_t count = epoch % 3 == 0 ? 100 : epoch % 3 == 1 ? 103 : 96;
    EXPECT_TRUE(std::ranges::is_sorted(rows));
    EXPECT_GE(rows.front(), 1000 * epoch);
    EXPECT_LT(rows.back(), 1000 * epoch + count);
    EXPECT_EQ(std::set<int64_t>(rows.begin(), rows.end()).size(),
              static_cast<size_t>(std::min(count, source.examples())));
  }
}

TEST(EpochSource, LeavesOutEachRowWithTheSameProbability) {
  const EpochSource source(numbers_by_epoch({4}), kKey);
  std::vector<int> seen(6);
  constexpr int kEpochs = 3000;
  for (int64_t epoch = 0; epoch < kEpochs; ++epoch) {
    for (int64_t example = 0; example < 4; ++example)
      ++seen[static_cast<size_t>(source.row_of(example, epoch, 6))];
  }
  for (const int count : seen) EXPECT_NEAR(count, kEpochs * 4 / 6, 150);
}

TEST(EpochSource, MakesTheNextEpochAheadAndEndsItWhenItIsNotNeeded) {
  std::atomic<int> opened = 0, ended = 0;
  {
    const OpenEpoch numbers = numbers_by_epoch({10});
    const EpochSource source(
        [&](int64_t epoch, const TextProgress& progress) {
          ++opened;
          try {
            while (epoch == 2) {
              progress(TextStage::kTokenise, 0, 0);
              std::this_thread::yield();
            }
          } catch (...) {
            ++ended;
            throw;
          }
          return numbers(epoch, progress);
        },
        kKey);
    EXPECT_EQ(opened, 1);
    numbers_of(source, 0);
    numbers_of(source, 1);
  }
  EXPECT_EQ(opened, 3);
  EXPECT_EQ(ended, 1);
}

TEST(EpochSource, MakesNoEpochBehindTheEndOfTheStream) {
  std::atomic<int64_t> last = 0;
  const OpenEpoch numbers = numbers_by_epoch({10});
  {
    const EpochSource source(
        [&](int64_t epoch, const TextProgress& progress) {
          last = std::max(last.load(), epoch);
          return numbers(epoch, progress);
        },
        kKey);
    source.begin_stream(20, {});
    numbers_of(source, 0);
    numbers_of(source, 1);
    source.begin_stream(31, {});  // a run that goes on
    numbers_of(source, 2);
  }
  EXPECT_EQ(last, 3);
}

TEST(EpochSource, WaitsForNoEpochWhenTheReaderStops) {
  std::atomic<bool> began = false;
  const OpenEpoch numbers = numbers_by_epoch({10});
  const auto source = std::make_shared<const EpochSource>(
      [&](int64_t epoch, const TextProgress& progress) {
        while (epoch == 1) {
          began = true;
          progress(TextStage::kTokenise, 0, 0);
          std::this_thread::yield();
        }
        return numbers(epoch, progress);
      },
      kKey);
  {
    Prefetcher batches(BatchStream(source, TrainingBatches{.batch_size = 10}));
    EXPECT_NE(batches.next(), nullptr);
    while (!began) std::this_thread::yield();
    EXPECT_FALSE(batches.wait(std::chrono::milliseconds(1)));
  }
  Prefetcher again(BatchStream(source, TrainingBatches{.batch_size = 10, .end_row = 10}));
  EXPECT_NE(again.next(), nullptr);
  EXPECT_EQ(again.next(), nullptr);
}

TEST(EpochSource, InAMixtureEachIsMadeAsFarAsItsTurnsGo) {
  for (const bool weighted : {true, false}) {
    std::array<std::atomic<int64_t>, 2> last = {0, 0};
    const OpenEpoch numbers = numbers_by_epoch({10});
    std::vector<std::unique_ptr<Source>> sources;
    for (std::atomic<int64_t>& of_source : last) {
      sources.push_back(std::make_unique<EpochSource>(
          [&](int64_t epoch, const TextProgress& progress) {
            of_source = std::max(of_source.load(), epoch);
            return numbers(epoch, progress);
          },
          kKey));
    }
    const std::vector<double> weights = weighted ? std::vector<double>{1, 3} : std::vector<double>{};
    const auto mixed = std::make_shared<const MixedSource>(std::move(sources), weights);
    EXPECT_TRUE(mixed->begins_made_epoch(0));
    EXPECT_FALSE(mixed->begins_made_epoch(10));
    Prefetcher batches(BatchStream(mixed, TrainingBatches{.batch_size = 8, .end_row = 40}));
    for (int i = 0; i < 5; ++i) EXPECT_NE(batches.next(), nullptr);
    EXPECT_EQ(batches.next(), nullptr);
    EXPECT_EQ(last[0], weighted ? 0 : 1);
    EXPECT_EQ(last[1], weighted ? 2 : 1);
  }
}

TEST(EpochSource, SaysWhyAnEpochCannotBeMade) {
  const OpenEpoch numbers = numbers_by_epoch({10});
  const EpochSource source(
      [&](int64_t epoch, const TextProgress& progress) {
        if (epoch == 1) throw Error(ErrorKind::kData, "train.txt changes while it is read");
        return numbers(epoch, progress);
      },
      kKey);
  numbers_of(source, 0);
  EXPECT_THAT(failure([&] { numbers_of(source, 1); }), HasSubstr("train.txt changes"));
}

TEST(EpochSource, TriesAgainWhatHasFailedAhead) {
  const OpenEpoch numbers = numbers_by_epoch({10});
  std::atomic<int> tries = 0;
  const EpochSource source(
      [&](int64_t epoch, const TextProgress& progress) {
        if (epoch == 1 && tries++ == 0) throw Error(ErrorKind::kSystem, "no space left on device");
        return numbers(epoch, progress);
      },
      kKey);
  numbers_of(source, 0);
  EXPECT_EQ(numbers_of(source, 1).front(), 1000);
  EXPECT_EQ(tries, 2);
}

class SampledTexts : public testing::TextTest {
 protected:
  static std::unique_ptr<Vocabulary> pieces(SentencePieceModelFile::Algorithm algorithm) {
    using enum SentencePieceModelFile::PieceType;
    SentencePieceModelFile model{
        .pieces = {{"<pad>", 0, kControl}, {"</s>", 0, kControl}, {"<unk>", 0, kUnknown}},
        .algorithm = algorithm,
        .normalization = "identity"};
    float score = -1;
    for (const char* piece : {"▁", "a", "b", "c", "ab", "bc", "▁a", "▁ab", "abc", "▁abc", "ca"})
      model.pieces.push_back({piece, score -= 0.25F});
    return std::make_unique<SentencePieceVocabulary>(written_model(model), "test");
  }

  SourceContext context(int threads = 2) const {
    SourceContext context{.seed = 5};
    context.text = settings(24, 24, Packing::kDense);
    const std::shared_ptr<const Vocabulary> unigram = pieces(SentencePieceModelFile::Algorithm::kUnigram);
    context.text.vocabularies = {unigram, unigram};
    context.text.threads = threads;
    return context;
  }

  int token_stores() const {
    int stores = 0;
    for (const auto& entry : std::filesystem::directory_iterator(path("cache"))) {
      const std::string name = entry.path().filename().string();
      stores += name.starts_with("tokens-") && name.ends_with(".safetensors");
    }
    return stores;
  }

  /// A file of words of a, b and c.
  std::string words(const std::string& name, int lines) const {
    std::string text;
    for (int i = 0; i < lines; ++i)
      text += std::string("abcabc").substr(i % 3, 2 + i % 4) + " " +
              std::string("cabab").substr(i % 2, 1 + i % 4) + "\n";
    return file(name, text);
  }

  static TextOptions sampled(const std::string& path) {
    TextOptions options = testing::text(path);
    options.sampling.emplace().alpha = 0.2;
    return options;
  }

  static std::vector<int32_t> values_of(const Batch& batch) {
    std::vector<int32_t> all;
    for (int f = 0; f < 3; ++f)
      all.insert(all.end(), batch.values<int32_t>(f).begin(), batch.values<int32_t>(f).end());
    return all;
  }

  /// Batches of 4 rows from `start` on, of which a process reads `count` from `begin` on.
  static std::vector<std::vector<int32_t>> batches_of(std::shared_ptr<const Source> source, int64_t batches,
                                                      int64_t start = 0, int64_t begin = 0,
                                                      int64_t count = 4) {
    const BatchStream stream(std::move(source),
                             TrainingBatches{.batch_size = 4, .seed = 5, .start_row = start},
                             {.begin = begin, .count = count});
    Batch batch = stream.make_batch();
    std::vector<std::vector<int32_t>> result;
    for (int64_t i = 0; i < batches; ++i) {
      stream.read(i, batch);
      result.push_back(values_of(batch));
    }
    return result;
  }
};

TEST_F(SampledTexts, EachEpochHasOtherTokensOfTheSameTexts) {
  const TextOptions options = sampled(words("train", 120));
  const auto source = options.open(context());
  const auto vocabulary = pieces(SentencePieceModelFile::Algorithm::kUnigram);
  const auto texts_and_ids = [&](int64_t epoch) {
    std::pair<std::multiset<std::string>, std::vector<int32_t>> result;
    for (int64_t row = 0; row < source->examples(); ++row) {
      std::vector<int32_t> ids(24), segments(24), positions(24);
      const std::array<FeatureSlice, 3> slices = {
          FeatureSlice{reinterpret_cast<std::byte*>(ids.data())},
          FeatureSlice{reinterpret_cast<std::byte*>(segments.data())},
          FeatureSlice{reinterpret_cast<std::byte*>(positions.data())}};
      const std::array rows = {row, row}, epochs = {epoch, epoch};
      source->read_training(rows, epochs, slices);
      result.second.insert(result.second.end(), ids.begin(), ids.end());
      for (auto begin = ids.begin(); begin != ids.end() && *begin != kPadId;) {
        const auto end = std::find(begin, ids.end(), kEosId) + 1;
        result.first.insert(vocabulary->decode(std::vector<int32_t>(begin, end)));
        begin = end;
      }
    }
    return result;
  };
  const auto first = texts_and_ids(0), second = texts_and_ids(1), third = texts_and_ids(2);
  EXPECT_EQ(first.first.size(), 120u);
  EXPECT_NE(first.second, second.second);
  EXPECT_NE(second.second, third.second);
  EXPECT_NEAR(static_cast<double>(second.first.size()), 120, 15);  // a row more or less
  for (const std::string& text : second.first) EXPECT_TRUE(first.first.contains(text)) << text;
}

TEST_F(SampledTexts, ThreadsAndRestartsAndProcessesChangeNothing) {
  const std::string path = words("train", 560);  // more than a chunk of the tokeniser
  const TextOptions options = sampled(path);
  const std::shared_ptr<const Source> source = options.open(context(1));
  const int64_t epoch = source->examples() / 4, count = 3 * epoch + 2;
  const auto expected = batches_of(source, count);
  for (const int64_t done : {int64_t{1}, epoch, 2 * epoch + 1}) {
    SourceContext elsewhere = context(3);
    elsewhere.text.cache = TextTest::path("cache") + std::to_string(done);
    const auto again = batches_of(options.open(elsewhere), count - done, 4 * done);
    EXPECT_EQ(again, std::vector<std::vector<int32_t>>(expected.begin() + done, expected.end())) << done;
  }
  const std::shared_ptr<const Source> other =
      options.open(context(2));  // another process on the machine, behind the first one
  const auto upper = batches_of(source, count, 0, 0, 2), lower = batches_of(other, count, 0, 2, 2);
  for (size_t i = 0; i < expected.size(); ++i) {
    for (size_t f = 0; f < 3; ++f) {
      std::vector<int32_t> both(upper[i].begin() + 48 * f, upper[i].begin() + 48 * (f + 1));
      both.insert(both.end(), lower[i].begin() + 48 * f, lower[i].begin() + 48 * (f + 1));
      EXPECT_EQ(both, std::vector<int32_t>(expected[i].begin() + 96 * f, expected[i].begin() + 96 * (f + 1)));
    }
  }
}

TEST_F(SampledTexts, OfEarlierEpochsOnlyTheFirstAndTheLastStayInTheCache) {
  const std::shared_ptr<const Source> source = sampled(words("train", 60)).open(context());
  const int64_t epoch = source->examples() / 4 + 1;
  batches_of(source, 6 * epoch);
  const int stores = token_stores();
  EXPECT_GE(stores, 3);
  EXPECT_LE(stores, 4);
}

TEST_F(SampledTexts, ObjectivesTakeDrawnTokens) {
  TextOptions drawn = sampled(words("train", 200));
  drawn.objective.emplace("ul2");
  TextOptions usual = drawn;
  usual.sampling.reset();
  SourceContext with_sentinels = context();
  const std::shared_ptr<const Vocabulary> vocabulary =
      with_extra_ids(pieces(SentencePieceModelFile::Algorithm::kUnigram), 100);
  with_sentinels.text.vocabularies = {vocabulary, vocabulary};
  with_sentinels.text.lengths = {64, 64};
  const std::shared_ptr<const Source> source = drawn.open(with_sentinels);
  const int64_t count = source->examples() / 2;  // two epochs or more of all objectives
  EXPECT_EQ(token_stores(), 7) << "each part draws its own";
  EXPECT_GT(source->bytes_of_making_epochs(), 7 << 20);
  const auto expected = batches_of(source, count);
  EXPECT_NE(expected, batches_of(usual.open(with_sentinels), count));
  with_sentinels.text.cache = path("other_cache");
  EXPECT_EQ(batches_of(drawn.open(with_sentinels), 3, 4 * (count - 3)),
            std::vector<std::vector<int32_t>>(expected.end() - 3, expected.end()));
}

TEST_F(SampledTexts, SeedAndNameAndEvaluationDecide) {
  const TextOptions options = sampled(words("train", 60));
  const auto first = batches_of(options.open(context()), 3);
  SourceContext other_seed = context(), other_name = context(), evaluation = context();
  other_seed.seed = 6;
  other_name.text.name = "news";
  evaluation.text.purpose = TextPurpose::kEvaluation;
  EXPECT_NE(batches_of(options.open(other_seed), 3), first);
  EXPECT_NE(batches_of(options.open(other_name), 3), first);
  EXPECT_THAT(failure([&] { options.open(evaluation); }),
              HasSubstr("`sampling` draws the tokens of training texts"));
}

TEST_F(SampledTexts, RefuseVocabulariesOfAnotherKind) {
  TextOptions options = sampled(words("train", 10));
  SourceContext bytes = context();
  bytes.text = settings(24, 24);
  EXPECT_THAT(failure([&] { options.open(bytes); }), HasSubstr("no segmentations can be drawn"));
  options.sampling->alpha.reset();
  options.sampling->dropout = 0.1;
  EXPECT_THAT(failure([&] { options.open(context()); }), HasSubstr("`dropout` is for byte pairs"));
}

}  // namespace
}  // namespace mtf
