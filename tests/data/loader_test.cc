#include "data/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <numeric>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>

#include "data/permutation.h"
#include "data/sources/identity.h"
#include "engine/base/error.h"

namespace mtf {
namespace {

using ::testing::ElementsAre;

/// Returns a source in which example r is the number r.
std::shared_ptr<const Source> numbers(int64_t examples) {
  std::vector<int64_t> values(examples);
  std::iota(values.begin(), values.end(), 0);
  const auto bytes = std::as_bytes(std::span(values));
  return std::make_shared<MemorySource>(std::vector<Feature>{{"id", Shape{}, DType::kInt64}},
                                        std::vector<std::vector<std::byte>>{{bytes.begin(), bytes.end()}});
}

std::vector<int64_t> ids(const Batch& batch) {
  const std::span<const int64_t> values = batch.values<int64_t>(0);
  return {values.begin(), values.end()};
}

std::vector<int64_t> read(const BatchStream& stream, int64_t index) {
  Batch batch = stream.make_batch();
  stream.read(index, batch);
  return ids(batch);
}

TEST(TrainingBatches, EveryEpochHasEveryRowOnce) {
  constexpr int64_t n = 25, batch_size = 10;  // batches span epochs
  const BatchStream stream(numbers(n), TrainingBatches{.batch_size = batch_size, .seed = 5});
  EXPECT_EQ(stream.batches(), std::nullopt);
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < 10; ++i)
    for (const int64_t id : read(stream, i)) rows.push_back(id);
  for (int64_t epoch = 0; epoch < 4; ++epoch) {
    Permutation permutation(n, 5, epoch);
    std::set<int64_t> seen;
    for (int64_t i = 0; i < n; ++i) {
      EXPECT_EQ(rows[epoch * n + i], permutation(i));
      seen.insert(rows[epoch * n + i]);
    }
    EXPECT_EQ(seen.size(), static_cast<size_t>(n));
  }
}

TEST(TrainingBatches, KnowTheirNumberAndWhereTheyEnd) {
  const BatchStream stream(numbers(25), TrainingBatches{.batch_size = 10});
  Batch batch = stream.make_batch();
  stream.read(2, batch);
  EXPECT_EQ(batch.index, 2);
  EXPECT_EQ(batch.next_row, 30);
  EXPECT_THAT(batch.weights, ::testing::Each(1.0f));
}

TEST(TrainingBatches, BatchMayBeLargerThanTheEpoch) {
  const BatchStream stream(numbers(3), TrainingBatches{.batch_size = 9});
  std::vector<int64_t> rows = read(stream, 4);
  std::sort(rows.begin(), rows.end());
  EXPECT_THAT(rows, ElementsAre(0, 0, 0, 1, 1, 1, 2, 2, 2));
}

TEST(TrainingBatches, ResumeAtARowSkipsAndRepeatsNothing) {
  const auto source = numbers(25);
  const BatchStream whole(source, TrainingBatches{.batch_size = 6, .seed = 2});
  Batch batch = whole.make_batch();
  whole.read(6, batch);
  const BatchStream resumed(source, TrainingBatches{.batch_size = 6, .seed = 2, .start_row = batch.next_row});
  for (int64_t i = 0; i < 10; ++i) EXPECT_EQ(read(resumed, i), read(whole, 7 + i));
  const BatchStream other_size(source,
                               TrainingBatches{.batch_size = 12, .seed = 2, .start_row = batch.next_row});
  std::vector<int64_t> two = read(whole, 7);
  for (const int64_t id : read(whole, 8)) two.push_back(id);
  EXPECT_EQ(read(other_size, 0), two);
}

TEST(TrainingBatches, WithoutShuffleFollowTheSource) {
  const BatchStream stream(numbers(5), TrainingBatches{.batch_size = 3, .shuffle = false});
  EXPECT_THAT(read(stream, 0), ElementsAre(0, 1, 2));
  EXPECT_THAT(read(stream, 1), ElementsAre(3, 4, 0));
}

TEST(BatchPart, ProcessesTogetherReadTheWholeBatch) {
  const auto source = numbers(40);
  const TrainingBatches options{.batch_size = 8, .seed = 3};
  const BatchStream whole(source, options);
  for (int64_t i = 0; i < 6; ++i) {
    std::vector<int64_t> joined;
    for (int64_t begin = 0; begin < 8; begin += 2)
      for (const int64_t id : read(BatchStream(source, options, {.begin = begin, .count = 2}), i))
        joined.push_back(id);
    EXPECT_EQ(joined, read(whole, i));
  }
}

/// Returns a source of 10 examples of a feature [rows=3, cols=4, channels=2]: element i of example r is 100 r + i.
std::shared_ptr<const Source> blocks() {
  std::vector<int32_t> values;
  for (int32_t r = 0; r < 10; ++r)
    for (int32_t i = 0; i < 24; ++i) values.push_back(100 * r + i);
  const auto bytes = std::as_bytes(std::span(values));
  return std::make_shared<MemorySource>(
      std::vector<Feature>{{"block", {{"rows", 3}, {"cols", 4}, {"channels", 2}}, DType::kInt32}},
      std::vector<std::vector<std::byte>>{{bytes.begin(), bytes.end()}});
}

std::vector<int32_t> read_box(const Box& box, BatchPart part = {}) {
  part.boxes["block"] = box;
  const BatchStream stream(blocks(), EvaluationBatches{.batch_size = 4}, part);
  Batch batch = stream.make_batch();
  stream.read(1, batch);
  EXPECT_EQ(batch.feature(0).size(), static_cast<size_t>(stream.local_rows() * box.shape.size() * 4));
  const auto values = batch.values<int32_t>(0);
  return {values.begin(), values.end()};
}

TEST(BatchPart, ABoxOfAFeatureIsAllThatIsRead) {
  const BatchPart second{.begin = 2, .count = 1};  // example 6
  EXPECT_THAT(read_box({{1, 1, 0}, {{"rows", 2}, {"cols", 2}, {"channels", 2}}}, second),
              ElementsAre(610, 611, 612, 613, 618, 619, 620, 621));
  EXPECT_THAT(read_box({{0, 0, 1}, {{"rows", 1}, {"cols", 4}, {"channels", 1}}}, second),
              ElementsAre(601, 603, 605, 607));
  EXPECT_THAT(read_box({{2, 0, 0}, {{"rows", 1}, {"cols", 4}, {"channels", 2}}}, second),
              ElementsAre(616, 617, 618, 619, 620, 621, 622, 623));
  EXPECT_THAT(read_box({{0, 3, 1}, {{"rows", 1}, {"cols", 1}, {"channels", 1}}}),
              ElementsAre(407, 507, 607, 707));
}

TEST(BatchPart, BoxesTogetherAreTheWholeFeature) {
  const Shape shape{{"rows", 3}, {"cols", 4}, {"channels", 2}};
  const std::vector<int32_t> whole = read_box(Box::whole(shape));
  for (const int64_t rows : {1, 3}) {
    for (const int64_t cols : {1, 2, 4}) {
      const Shape size{{"rows", rows}, {"cols", cols}, {"channels", 2}};
      std::vector<int32_t> joined(whole.size(), -1);
      for (int64_t r = 0; r < 3; r += rows) {
        for (int64_t c = 0; c < 4; c += cols) {
          const std::vector<int32_t> part = read_box({{r, c, 0}, size});
          size_t next = 0;
          for (int64_t example = 0; example < 4; ++example)
            for (int64_t i = r; i < r + rows; ++i)
              for (int64_t j = 2 * c; j < 2 * (c + cols); ++j)
                joined[example * 24 + i * 8 + j] = part[next++];
        }
      }
      EXPECT_EQ(joined, whole) << size.to_string();
    }
  }
}

TEST(BatchPart, MemoryIsThatOfTheBoxes) {
  const Box box{{0, 0, 0}, {{"rows", 1}, {"cols", 4}, {"channels", 2}}};
  BatchPart part;
  part.boxes["block"] = box;
  const TrainingBatches options{.batch_size = 60};
  EXPECT_EQ(BatchStream(blocks(), options).batch_bytes() - BatchStream(blocks(), options, part).batch_bytes(),
            60 * 16 * 4);
}

/// Examples of four pixels and a number that is none: example r has the pixels 10 r .. 10 r + 3.
class Pixels final : public Source {
 public:
  int64_t examples() const override { return 5; }
  const std::vector<Feature>& features() const override { return features_; }
  bool has_bytes(size_t f) const override { return f == 0; }
  void read(std::span<const int64_t> rows, std::span<const FeatureSlice> slices) const override {
    for (size_t i = 0; i < rows.size(); ++i) {
      for (size_t p = 0; p < 4; ++p) {
        const auto pixel = static_cast<uint8_t>(10 * rows[i] + static_cast<int64_t>(p));
        if (slices[0].in_bytes) {
          slices[0].output[4 * i + p] = std::byte{pixel};
        } else {
          reinterpret_cast<float*>(slices[0].output)[4 * i + p] = static_cast<float>(pixel) / 255.0f;
        }
      }
      reinterpret_cast<float*>(slices[1].output)[i] = static_cast<float>(rows[i]);
    }
  }

 private:
  std::vector<Feature> features_{{"image", Shape{{"pixels", 4}}, DType::kFloat32},
                                 {"size", Shape{}, DType::kFloat32}};
};

TEST(BatchPart, FeaturesStayBytesWhereTheSourceHasThem) {
  const auto source = std::make_shared<Pixels>();
  const BatchStream floats(source, EvaluationBatches{.batch_size = 2});
  const BatchStream bytes(source, EvaluationBatches{.batch_size = 2}, {.in_bytes = true});
  Batch expected = floats.make_batch(), batch = bytes.make_batch();
  floats.read(1, expected);
  bytes.read(1, batch);
  EXPECT_FALSE(expected.in_bytes(0));
  EXPECT_TRUE(batch.in_bytes(0));
  EXPECT_FALSE(batch.in_bytes(1));
  EXPECT_THAT(batch.values<uint8_t>(0), ElementsAre(20, 21, 22, 23, 30, 31, 32, 33));
  EXPECT_EQ(expected.values<float>(0)[5], 31 / 255.0f);
  EXPECT_THAT(batch.values<float>(1), ElementsAre(2, 3));
}

TEST(IdentitySource, ABoxHasTheValuesOfTheWhole) {
  const IdentitySource source(10, Dimension{"io", 6}, 3);
  const std::vector<int64_t> rows = {7, 2};
  std::vector<float> x(12), y(12), part(4), rest(6);
  const auto out = [](std::vector<float>& v) { return reinterpret_cast<std::byte*>(v.data()); };
  source.read(rows, std::vector<FeatureSlice>{{out(x)}, {out(y)}});
  const Box middle{{1}, {{"io", 2}}}, end{{3}, {{"io", 3}}};
  source.read(rows, std::vector<FeatureSlice>{{out(part), &middle}, {out(rest), &end}});
  EXPECT_EQ(part, (std::vector<float>{x[1], x[2], x[7], x[8]}));
  EXPECT_EQ(rest, (std::vector<float>{x[3], x[4], x[5], x[9], x[10], x[11]}));
}

TEST(EvaluationBatches, CountEveryExampleOnceAndFillWithWeightZero) {
  const BatchStream stream(numbers(7), EvaluationBatches{.batch_size = 3});
  EXPECT_EQ(stream.batches(), 3);
  Batch batch = stream.make_batch();
  stream.read(1, batch);
  EXPECT_THAT(ids(batch), ElementsAre(3, 4, 5));
  EXPECT_THAT(batch.weights, ElementsAre(1, 1, 1));
  stream.read(2, batch);
  EXPECT_THAT(ids(batch), ElementsAre(6, 6, 6));
  EXPECT_THAT(batch.weights, ElementsAre(1, 0, 0));
  EXPECT_EQ(batch.next_row, 7);
  const BatchStream second_half(numbers(7), EvaluationBatches{.batch_size = 4}, {.begin = 2, .count = 2});
  Batch half = second_half.make_batch();
  second_half.read(1, half);
  EXPECT_THAT(half.weights, ElementsAre(1, 0));
}

TEST(EvaluationBatches, LimitTakesTheFirstExamples) {
  const BatchStream stream(numbers(7), EvaluationBatches{.batch_size = 3, .limit = 4});
  EXPECT_EQ(stream.batches(), 2);
  Batch batch = stream.make_batch();
  stream.read(1, batch);
  EXPECT_THAT(batch.weights, ElementsAre(1, 0, 0));
  EXPECT_EQ(BatchStream(numbers(2), EvaluationBatches{.batch_size = 3, .limit = 100}).batches(), 1);
}

TEST(IdentitySource, TargetsAreTheInputs) {
  const auto source = std::make_shared<IdentitySource>(100, Dimension{"io", 5}, 1);
  const BatchStream stream(source, TrainingBatches{.batch_size = 4, .seed = 1});
  Batch batch = stream.make_batch();
  stream.read(0, batch);
  const auto x = batch.values<float>(0), y = batch.values<float>(1);
  EXPECT_EQ(x.size(), 20u);
  EXPECT_TRUE(std::ranges::equal(x, y));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(y.data()) % 64, 0u);
  const PhiloxKey key = random_key("data/identity", 1);
  for (int64_t i = 0; i < 20; ++i) {
    EXPECT_EQ(x[i], uniform(key, RandomStream::kData, 0, stream.example(i / 5) * 5 + i % 5));
    EXPECT_GT(x[i], 0);
    EXPECT_LE(x[i], 1);
  }
}

TEST(Prefetcher, GivesWhatDirectReadingGives) {
  const BatchStream stream(numbers(100), TrainingBatches{.batch_size = 7, .seed = 9});
  Prefetcher prefetcher(stream, 5);
  for (int64_t i = 5; i < 300; ++i) {
    const Batch* batch = prefetcher.next();
    ASSERT_NE(batch, nullptr);
    EXPECT_EQ(batch->index, i);
    EXPECT_EQ(ids(*batch), read(stream, i));
  }
}

TEST(Prefetcher, EndsAfterTheLastBatch) {
  Prefetcher prefetcher(BatchStream(numbers(7), EvaluationBatches{.batch_size = 3}));
  for (int i = 0; i < 3; ++i) ASSERT_NE(prefetcher.next(), nullptr);
  EXPECT_EQ(prefetcher.next(), nullptr);
  EXPECT_EQ(prefetcher.next(), nullptr);
}

TEST(Prefetcher, OfTrainingEndsWhereTheRunDoes) {
  const TrainingBatches endless{.batch_size = 3, .seed = 9, .start_row = 2};
  TrainingBatches ending = endless;
  ending.end_row = 11;
  const BatchStream stream(numbers(7), endless);
  Prefetcher prefetcher(BatchStream(numbers(7), ending));
  for (int64_t i = 0; i < 3; ++i) {
    while (!prefetcher.wait(std::chrono::milliseconds(100))) {
    }
    EXPECT_EQ(ids(*prefetcher.next()), read(stream, i));
  }
  EXPECT_TRUE(prefetcher.wait(std::chrono::seconds(60)));
  EXPECT_EQ(prefetcher.next(), nullptr);
}

TEST(Prefetcher, ReusesItsBuffers) {
  Prefetcher prefetcher(BatchStream(numbers(50), TrainingBatches{.batch_size = 8}), 0, 2);
  std::set<const std::byte*> buffers;
  for (int i = 0; i < 100; ++i) buffers.insert(prefetcher.next()->feature(0).data());
  EXPECT_LE(buffers.size(), 3u);
}

TEST(Prefetcher, LetsTheConsumerKeepBatches) {
  const BatchStream stream(numbers(50), TrainingBatches{.batch_size = 8});
  Prefetcher prefetcher(stream, 0, 2, 3);
  std::deque<std::pair<const Batch*, std::vector<int64_t>>> kept;
  for (int i = 0; i < 100; ++i) {
    if (kept.size() == 3) kept.pop_front();
    const Batch* batch = prefetcher.next();
    const auto values = batch->values<int64_t>(0);
    kept.emplace_back(batch, std::vector<int64_t>(values.begin(), values.end()));
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    for (const auto& [earlier, before] : kept) {
      const auto now = earlier->values<int64_t>(0);
      EXPECT_TRUE(std::equal(now.begin(), now.end(), before.begin(), before.end()));
    }
  }
  EXPECT_EQ(Prefetcher::bytes(stream, 2, 3), 5 * stream.batch_bytes());
}

/// A source that counts its reads, sleeps in each, and fails in one of them.
class FailingSource final : public Source {
 public:
  explicit FailingSource(int fail_at) : fail_at_(fail_at) {}
  int64_t examples() const override { return 1000; }
  const std::vector<Feature>& features() const override { return features_; }
  void read(std::span<const int64_t> rows, std::span<const FeatureSlice> slices) const override {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (reads++ == fail_at_) throw Error(ErrorKind::kData, "the disk is gone");
    std::fill_n(reinterpret_cast<int32_t*>(slices[0].output), rows.size(), 1);
  }
  mutable std::atomic<int> reads = 0;

 private:
  std::vector<Feature> features_ = {{"x", Shape{}, DType::kInt32}};
  int fail_at_;
};

TEST(Prefetcher, RethrowsWhatTheReaderThrewAfterTheBatchesBefore) {
  Prefetcher prefetcher(BatchStream(std::make_shared<FailingSource>(4), TrainingBatches{.batch_size = 2}));
  for (int i = 0; i < 4; ++i) ASSERT_NE(prefetcher.next(), nullptr);
  EXPECT_THROW(prefetcher.next(), Error);
  EXPECT_THROW(prefetcher.next(), Error);
}

TEST(Prefetcher, ReadsOnlyAsFarAheadAsItsDepth) {
  const auto source = std::make_shared<FailingSource>(-1);
  Prefetcher prefetcher(BatchStream(source, TrainingBatches{.batch_size = 2}), 0, 2);
  for (int i = 0; i < 5; ++i) prefetcher.next();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(source->reads, 7);
}

TEST(Prefetcher, StopsAtAnyTime) {
  for (int used = 0; used < 20; ++used) {
    Prefetcher prefetcher(BatchStream(std::make_shared<FailingSource>(10), TrainingBatches{.batch_size = 2}));
    for (int i = 0; i < used % 8; ++i) prefetcher.next();
  }
}

}  // namespace
}  // namespace mtf
