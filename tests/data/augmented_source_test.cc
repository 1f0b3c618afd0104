// Tests that augmented examples do not depend on processes, threads, boxes or restarts.
#include "data/augment/augmented_source.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstring>

#include "data/loader.h"
#include "data/mixed_source.h"
#include "engine/config/load.h"
#include "engine/config/schema.h"
#include "tests/support/failure.h"

namespace mtf {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kRows = 9, kCols = 8, kImage = kRows * kCols * 3;

template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

const Shape kShape{{"rows", kRows}, {"cols", kCols}, {"channels", 3}};

/// The dimensions of `shape` in another order.
Shape in_order(const Shape& shape, const std::vector<std::string>& names) {
  std::vector<Dimension> dimensions;
  for (const std::string& name : names) dimensions.push_back(shape.dimension(name));
  return Shape(std::move(dimensions));
}

/// The values of shape `from`, with its dimensions in the order of `to`.
std::vector<float> transposed(std::span<const float> values, const Shape& from, const Shape& to) {
  const std::vector<int64_t> strides = from.strides();
  std::vector<float> result;
  for (int64_t i = 0; i < to.size(); ++i) {
    int64_t rest = i, at = 0;
    for (int axis = to.rank() - 1; axis >= 0; --axis) {
      at += rest % to[axis].size * strides[static_cast<size_t>(*from.find(to[axis].name))];
      rest /= to[axis].size;
    }
    result.push_back(values[static_cast<size_t>(at)]);
  }
  return result;
}

/// Example e has the label e, and an image whose numbers begin with e / 100. `shape` is kShape in any order.
std::unique_ptr<Source> some_images(int64_t examples, const Shape& shape = kShape) {
  std::vector<float> images;
  std::vector<int32_t> labels;
  for (int64_t e = 0; e < examples; ++e) {
    labels.push_back(static_cast<int32_t>(e));
    std::vector<float> image;
    for (int64_t i = 0; i < kImage; ++i)
      image.push_back(i < 3 ? static_cast<float>(e) / 100
                            : static_cast<float>((e * 131 + i * 37) % 101) / 100);
    const std::vector<float> value = transposed(image, kShape, shape);
    images.insert(images.end(), value.begin(), value.end());
  }
  return std::make_unique<MemorySource>(
      std::vector<Feature>{{"image", shape, DType::kFloat32}, {"labels", {}, DType::kInt32}},
      std::vector<std::vector<std::byte>>{bytes_of(images), bytes_of(labels)});
}

AugmentSettings settings(const std::string& yaml, AugmentFor purpose = AugmentFor::kTraining,
                         int threads = 1) {
  Diagnostics diagnostics;
  AugmentSettings result{.augmentations = config::parse<Augmentations>(
                             config::parse_yaml(yaml, "a.yaml", diagnostics), diagnostics, "data.augment"),
                         .seed = 7,
                         .purpose = purpose,
                         .threads = threads};
  diagnostics.throw_if_errors();
  return result;
}

constexpr const char* kAll =
    "[flip, {crop: {padding: 2}}, {random_resized_crop: [6, 7]}, {affine: {degrees: 20, shear: 5}}, "
    "{color_jitter: {brightness: 0.2, contrast: 0.2, saturation: 0.2, hue: 0.1}}, rand_augment, "
    "{mixup: {alpha: 0.4, probability: 0.5}}, cutmix, {cutout: 3}, {normalize: {mean: 0.5, deviation: "
    "0.25}}]";
constexpr int64_t kMadeImage = 6 * 7 * 3;

struct Row {
  std::vector<float> image;
  int32_t label = 0, other = -1;
  float weight = 1;
  friend bool operator==(const Row&, const Row&) = default;
};

/// The rows of batch `index`.
std::vector<Row> rows_of(const BatchStream& stream, int64_t index) {
  Batch batch = stream.make_batch();
  stream.read(index, batch);
  const auto images = batch.values<float>(0);
  const size_t size = images.size() / static_cast<size_t>(stream.local_rows());
  std::vector<Row> rows;
  for (size_t i = 0; i < static_cast<size_t>(stream.local_rows()); ++i) {
    Row row{{images.begin() + i * size, images.begin() + (i + 1) * size}, batch.values<int32_t>(1)[i]};
    if (stream.source().features().size() == 4) {
      row.other = batch.values<int32_t>(2)[i];
      row.weight = batch.values<float>(3)[i];
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

constexpr TrainingBatches kBatches{.batch_size = 8, .seed = 3};

TEST(AugmentedSource, GivesTheSameRowsToAnyProcessesAndThreads) {
  const auto one = augmented(some_images(20), settings(kAll));
  for (int64_t index = 0; index < 6; ++index) {
    const std::vector<Row> whole = rows_of(BatchStream(one, kBatches), index);
    for (const int threads : {1, 3}) {
      const auto source = augmented(some_images(20), settings(kAll, AugmentFor::kTraining, threads));
      for (const int64_t processes : {1, 2, 4, 8}) {
        std::vector<Row> rows;
        for (int64_t p = 0; p < processes; ++p) {
          const int64_t count = 8 / processes;
          for (Row& row : rows_of(BatchStream(source, kBatches, {.begin = p * count, .count = count}), index))
            rows.push_back(std::move(row));
        }
        EXPECT_EQ(rows, whole) << "batch " << index << ", " << processes << " processes";
      }
    }
  }
}

TEST(AugmentedSource, GoesOnInTheMiddleOfAnEpoch) {
  const auto source = augmented(some_images(20), settings(kAll));
  const BatchStream whole(source, kBatches);
  TrainingBatches later = kBatches;
  later.start_row = 16;
  EXPECT_EQ(rows_of(BatchStream(source, later), 1), rows_of(whole, 3));
}

TEST(AugmentedSource, GivesOtherImagesInTheNextEpoch) {
  const auto source = augmented(some_images(8), settings("[{crop: {padding: 4}}, {rotate: 30}]"));
  TrainingBatches in_order = kBatches;
  in_order.shuffle = false;
  const BatchStream stream(source, in_order);
  const std::vector<Row> first = rows_of(stream, 0), second = rows_of(stream, 1);
  for (size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(first[i].label, second[i].label);
    EXPECT_NE(first[i].image, second[i].image);
  }
}

TEST(AugmentedSource, DependsOnTheExampleAndNotOnItsRow) {
  const auto source = augmented(some_images(8), settings("[{crop: {padding: 4}}, {rotate: 30}]"));
  std::map<int32_t, std::vector<float>> images;
  for (const uint64_t seed : {1, 2}) {  // two orders of the same epoch
    TrainingBatches batches = kBatches;
    batches.seed = seed;
    for (const Row& row : rows_of(BatchStream(source, batches), 0)) {
      const auto [place, is_new] = images.emplace(row.label, row.image);
      EXPECT_EQ(place->second, row.image);
    }
  }
  EXPECT_EQ(images.size(), 8u);
}

TEST(AugmentedSource, CountsEpochsOfWeightedSourcesByThemselves) {
  std::vector<std::unique_ptr<Source>> sources;
  sources.push_back(some_images(2));
  sources.push_back(some_images(100));
  const MixedSource mixed(std::move(sources), {1, 1});
  EXPECT_EQ(mixed.stream_epoch(0), 0);
  std::set<int64_t> epochs;
  for (int64_t row = 0; row < 20; ++row) epochs.insert(mixed.stream_epoch(row));
  EXPECT_EQ(epochs, (std::set<int64_t>{0, 1, 2, 3, 4}));
}

TEST(AugmentedSource, CutsBoxesOutOfTheWholeResult) {
  const auto source = augmented(some_images(20), settings(kAll));
  const std::vector<Row> whole = rows_of(BatchStream(source, kBatches), 1);
  const Box box{{2, 0, 1}, {{"rows", 3}, {"cols", 7}, {"channels", 2}}};
  BatchPart part{.begin = 4, .count = 3};
  part.boxes["image"] = box;
  const std::vector<Row> boxes = rows_of(BatchStream(source, kBatches, part), 1);
  const Feature& feature = source->features()[0];
  for (size_t i = 0; i < boxes.size(); ++i) {
    const Row& from = whole[i + 4];
    std::vector<float> expected(3 * 7 * 2);
    copy_box(feature, &box, reinterpret_cast<const std::byte*>(from.image.data()),
             reinterpret_cast<std::byte*>(expected.data()));
    EXPECT_EQ(boxes[i].image, expected);
    EXPECT_EQ(boxes[i].other, from.other);
    EXPECT_EQ(boxes[i].weight, from.weight);
  }
}

TEST(AugmentedSource, GoesByTheNamesOfDimensions) {
  constexpr const char* kEvaluated =
      "[{resize: [6, 5]}, {center_crop: [4, 5]}, {normalize: {mean: [0.1, 0.2, 0.3]}}]";
  for (const auto& [purpose, yaml] :
       {std::pair{AugmentFor::kTraining, kAll}, std::pair{AugmentFor::kEvaluation, kEvaluated}}) {
    const auto usual = augmented(some_images(20), settings(yaml, purpose));
    const std::vector<Row> expected = rows_of(BatchStream(usual, kBatches), 1);
    for (const std::vector<std::string>& names : {std::vector<std::string>{"channels", "rows", "cols"},
                                                  {"cols", "rows", "channels"},
                                                  {"rows", "channels", "cols"}}) {
      const auto source = augmented(some_images(20, in_order(kShape, names)), settings(yaml, purpose));
      const Shape &from = usual->features()[0].shape, &to = source->features()[0].shape;
      EXPECT_EQ(to, in_order(from, names));
      const std::vector<Row> rows = rows_of(BatchStream(source, kBatches), 1);
      for (size_t i = 0; i < rows.size(); ++i) {
        Row row = expected[i];
        row.image = transposed(row.image, from, to);
        EXPECT_EQ(rows[i], row) << to.to_string();
      }
    }
  }
}

TEST(AugmentedSource, MixesEachRowWithTheNextOneOfTheBatch) {
  const auto plain = std::shared_ptr<const Source>(some_images(20));
  const auto mixed = augmented(plain, settings("[{mixup: 1}]"));
  const BatchStream stream(mixed, kBatches);
  for (int64_t index = 0; index < 4; ++index) {
    const std::vector<Row> before = rows_of(BatchStream(plain, kBatches), index),
                           after = rows_of(stream, index);
    for (size_t i = 0; i < 8; ++i) {
      const Row &own = before[i], &other = before[(i + 1) % 8];
      EXPECT_EQ(after[i].label, own.label);
      EXPECT_EQ(after[i].other, other.label);
      for (size_t k = 0; k < own.image.size(); ++k)
        EXPECT_NEAR(after[i].image[k],
                    after[i].weight * own.image[k] + (1 - after[i].weight) * other.image[k], 1e-6);
    }
  }
  // The last row of a process needs the first one of the next.
  const std::vector<Row> last = rows_of(BatchStream(mixed, kBatches, {.begin = 3, .count = 1}), 0);
  EXPECT_EQ(last[0], rows_of(stream, 0)[3]);
}

TEST(AugmentedSource, CutmixWeighsLabelsByTheirAreas) {
  const auto plain = std::shared_ptr<const Source>(some_images(20));
  const auto mixed = augmented(plain, settings("[cutmix]"));
  const std::vector<Row> before = rows_of(BatchStream(plain, kBatches), 0),
                         after = rows_of(BatchStream(mixed, kBatches), 0);
  bool any = false;
  for (size_t i = 0; i < 8; ++i) {
    int64_t own = 0, other = 0;
    for (size_t k = 0; k < kImage; k += 3) {
      own += after[i].image[k] == before[i].image[k];
      other += after[i].image[k] == before[(i + 1) % 8].image[k];
    }
    EXPECT_GE(own + other, kImage / 3);
    EXPECT_NEAR(static_cast<double>(own) / (kImage / 3), after[i].weight, 0.05);
    any = any || after[i].weight < 0.9;
  }
  EXPECT_TRUE(any);
}

TEST(AugmentedSource, MixesARowOnce) {
  const auto plain = std::shared_ptr<const Source>(some_images(20));
  const auto mixed =
      augmented(plain, settings("[{mixup: {alpha: 1, probability: 0.5}}, {cutmix: {probability: 0.5}}]"));
  int untouched = 0, rows = 0;
  for (int64_t index = 0; index < 50; ++index) {
    const std::vector<Row> before = rows_of(BatchStream(plain, kBatches), index),
                           after = rows_of(BatchStream(mixed, kBatches), index);
    for (size_t i = 0; i < 8; ++i, ++rows)
      untouched += after[i].weight == 1 && after[i].image == before[i].image;
  }
  EXPECT_NEAR(static_cast<double>(untouched) / rows, 0.25, 0.08);
}

TEST(AugmentedSource, DeclaresItsFeatures) {
  const auto source = augmented(some_images(3), settings(kAll));
  const std::vector<Feature>& features = source->features();
  ASSERT_EQ(features.size(), 4u);
  EXPECT_EQ(features, augmented_features(some_images(3)->features(), settings(kAll)));
  EXPECT_EQ(features[0].shape.to_string(), "[rows=6, cols=7, channels=3]");
  EXPECT_EQ(features[2].name, "labels_other");
  EXPECT_EQ(features[3].name, "labels_weight");
  EXPECT_TRUE(features[2].training_only && features[3].training_only);
  EXPECT_EQ(rows_of(BatchStream(source, kBatches), 0)[0].image.size(), static_cast<size_t>(kMadeImage));
}

TEST(AugmentedSource, EvaluatesWithWhatChangesTheInputOfTheNetwork) {
  const char* const yaml =
      "[flip, {crop: {padding: 4}}, {center_crop: 6}, {mixup: 1}, {normalize: {mean: 0.5}}]";
  const auto plain = std::shared_ptr<const Source>(some_images(5));
  const auto source = augmented(plain, settings(yaml, AugmentFor::kEvaluation));
  ASSERT_EQ(source->features().size(), 2u);
  const EvaluationBatches batches{.batch_size = 4};
  const auto rows = rows_of(BatchStream(source, batches), 1);  // with rows that fill up the batch
  const auto before = rows_of(BatchStream(plain, batches), 1);
  for (size_t i = 0; i < 4; ++i) {
    ASSERT_EQ(rows[i].image.size(), 6u * 6 * 3);
    EXPECT_EQ(rows[i].image[0], before[i].image[(1 * kCols + 1) * 3] - 0.5f);
  }
  EXPECT_EQ(augmented(plain, settings("[flip]", AugmentFor::kEvaluation)), plain);
  EXPECT_EQ(augmented(plain, settings("[]")), plain);
}

TEST(AugmentedSource, CountsTheMemoryOfReading) {
  const auto plain = std::shared_ptr<const Source>(some_images(5));
  const auto source = augmented(plain, settings("[flip]"));
  EXPECT_EQ(plain->bytes_of_reading(8), 0);
  EXPECT_GE(source->bytes_of_reading(8), 8 * kImage * 4);
  const BatchStream stream(source, kBatches);
  EXPECT_EQ(Prefetcher::bytes(stream), 3 * stream.batch_bytes() + source->bytes_of_reading(8));
}

TEST(AugmentedSource, RefusesWhatDoesNotFit) {
  const auto refusal = [](const std::string& yaml, const std::string& image) -> std::string {
    AugmentSettings wrong = settings(yaml);
    wrong.image = image;
    try {
      augmented(some_images(3), wrong);
    } catch (const Error& error) {
      return error.what();
    }
    return "none";
  };
  EXPECT_THAT(refusal("[flip]", "imag"),
              HasSubstr("`data.augment`: the examples have no feature `imag`; did you mean `image`?"));
  EXPECT_THAT(refusal("[flip]", "labels"),
              HasSubstr("`data.augment` works on images, and feature `labels` is int32 []"));
  const Shape unnamed{{"channels", 3}, {"height", kRows}, {"width", kCols}};
  EXPECT_THAT(
      failure([&] {
        augmented_features({{"image", unnamed, DType::kFloat32}}, settings("[flip]"));
      }),
      HasSubstr("feature `image` is float32 [channels=3, height=9, width=8]; in `data.image` a feature of "
                "float32 whose dimensions are `rows`, `cols` and perhaps channels"));
  EXPECT_THAT(refusal("[{crop: 20}]", "image"),
              HasSubstr("a.yaml:1:2: `crop` makes 20 x 20 pixels of images of 9 x 8"));
  EXPECT_THAT(refusal("[mixup, {cutout: 2}, cutmix]", "image"),
              HasSubstr("`mixup` and `cutmix` mix rows, and others stand between them"));
}

}  // namespace
}  // namespace mtf
