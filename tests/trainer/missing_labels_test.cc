// The loss of models where some places have no label, or classes have weights: the mean over the labels of the batch, whatever
// the layout, the number of microbatches and the padding rows.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "tests/support/failure.h"
#include "tests/support/golden.h"
#include "tests/support/parse_model.h"
#include "tests/support/run_on_mesh.h"
#include "trainer/session/evaluation_graph.h"
#include "trainer/session/model_inputs.h"
#include "trainer/session/step.h"

namespace mtf::testing {
namespace {

constexpr int64_t kRows = 8, kPixels = 4, kChannels = 2, kClassCount = 3;

/// A model that gives a class to each of the pixels of a row.
struct PixelModel {
  std::string options;
  int missing;          ///< the number that says that there is no label
  Values weights = {};  ///< of the classes; empty: 1

  double weight(double label) const { return weights.empty() ? 1 : weights[static_cast<size_t>(label)]; }
};

std::unique_ptr<Model> pixel_model(const PixelModel& model) {
  return parse_model("{" + model.options +
                     ", layers: [{dense: {over: [channels], output: {classes: 3}, bias: true}}]}");
}

const std::vector<Feature> kPixelFeatures = {
    {"image", Shape{{"cols", kPixels}, {"channels", kChannels}}, DType::kFloat32},
    {"labels", Shape{{"cols", kPixels}}, DType::kInt32}};

/// Rows 0, 3 and 4 have no labels, so that some microbatches and some positions have few or none.
bool is_labelled(int64_t row, int64_t pixel) { return row % 4 != 0 && row != 3 && (row + pixel) % 3 != 0; }

std::map<std::string, Values> pixel_feeds(const PixelModel& model) {
  std::map<std::string, Values> feeds;
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t pixel = 0; pixel < kPixels; ++pixel) {
      for (int64_t c = 0; c < kChannels; ++c)
        feeds["image"].push_back(std::sin(static_cast<double>((row * kPixels + pixel) * kChannels + c)));
      feeds["labels"].push_back(is_labelled(row, pixel) ? static_cast<double>((row * 2 + pixel) % kClassCount)
                                                        : model.missing);
    }
  }
  return feeds;
}

std::map<std::string, Values> pixel_step(const PixelModel& model, const Layouts& layouts,
                                         int64_t microbatches, std::map<std::string, Values> feeds) {
  TrainStepOptions options;
  options.batch_size = kRows;
  options.microbatches = microbatches;
  options.keep_prediction = true;
  return run_on_mesh(*build_train_step(*pixel_model(model), kPixelFeatures, options).graph, layouts, feeds)
      .outputs;
}

/// What a batch of logits [rows, pixels, classes] and labels says, in float64.
struct ExpectedLoss {
  double sum = 0, hits = 0, labels = 0, weight = 0;
  Values bias_gradient = Values(kClassCount, 0);  ///< the gradient of sum / weight
};

ExpectedLoss loss_of(const Values& logits, const Values& labels, const PixelModel& model) {
  ExpectedLoss result;
  for (size_t place = 0; place < labels.size(); ++place) {
    if (labels[place] == model.missing) continue;
    const double weight = model.weight(labels[place]);
    const double* const row = &logits[place * kClassCount];
    double total = 0;
    for (int64_t c = 0; c < kClassCount; ++c) total += std::exp(row[c]);
    const auto label = static_cast<int64_t>(labels[place]);
    result.sum += weight * (std::log(total) - row[label]);
    result.weight += weight;
    result.hits += std::max_element(row, row + kClassCount) - row == label;
    ++result.labels;
    for (int64_t c = 0; c < kClassCount; ++c)
      result.bias_gradient[static_cast<size_t>(c)] +=
          weight * (std::exp(row[c]) / total - (c == label ? 1 : 0));
  }
  for (double& value : result.bias_gradient) value /= result.weight;
  return result;
}

class MissingLabels : public ::testing::TestWithParam<PixelModel> {};

TEST_P(MissingLabels, TheLossIsTheMeanOverTheLabelsOfTheBatch) {
  const auto feeds = pixel_feeds(GetParam());
  const auto outputs = pixel_step(GetParam(), Layouts::single(), 1, feeds);
  const ExpectedLoss expected = loss_of(outputs.at("output/logits"), feeds.at("labels"), GetParam());
  ASSERT_GT(expected.labels, 0);
  EXPECT_NEAR(outputs.at("loss")[0], expected.sum / expected.weight, 1e-6);
  expect_close("bias", outputs.at("grad/dense/bias"), expected.bias_gradient, 1e-5, 1e-6);
}

TEST_P(MissingLabels, MicrobatchesAndLayoutsChangeNothing) {
  const auto feeds = pixel_feeds(GetParam());
  const auto expected = pixel_step(GetParam(), Layouts::single(), 1, feeds);
  const std::vector<std::pair<Layouts, int64_t>> others = {
      {layouts("a:4", "batch:a"), 1},
      {layouts("a:2", "cols:a"), 1},
      {Layouts::single(), 4},
      {layouts("a:2", "batch:a"), 4},
  };
  for (const auto& [layout, microbatches] : others) {
    const auto outputs = pixel_step(GetParam(), layout, microbatches, feeds);
    for (const auto& [name, values] : expected) expect_close(name, outputs.at(name), values, 1e-5, 1e-7);
  }
}

TEST_P(MissingLabels, ABatchWithoutLabelsTeachesNothing) {
  auto feeds = pixel_feeds(GetParam());
  feeds["labels"] = Values(kRows * kPixels, GetParam().missing);
  const auto outputs = pixel_step(GetParam(), Layouts::single(), 1, feeds);
  EXPECT_EQ(outputs.at("loss")[0], 0);
  EXPECT_THAT(outputs.at("grad/dense/bias"), ::testing::Each(0));
}

TEST_P(MissingLabels, AnEvaluationCountsLabelsAndNoPadding) {
  const auto feeds = pixel_feeds(GetParam());
  const Values logits = pixel_step(GetParam(), Layouts::single(), 1, feeds).at("output/logits");
  constexpr int64_t kReal = 6;
  EvaluationGraphOptions options;
  options.keep_predictions = true;
  const auto graph = build_evaluation(*pixel_model(GetParam()), kPixelFeatures, kRows, options).graph;
  auto inputs = feeds;
  inputs[std::string(kWeightsInput)] = {1, 1, 1, 1, 1, 1, 0, 0};
  const auto outputs = run_on_mesh(*graph, layouts("a:2", "batch:a"), inputs).outputs;
  Values labels(feeds.at("labels").begin(), feeds.at("labels").begin() + kReal * kPixels);
  const ExpectedLoss expected = loss_of(logits, labels, GetParam());
  EXPECT_NEAR(outputs.at("sum/loss")[0], expected.sum, 1e-5);
  EXPECT_NEAR(outputs.at("weight/loss")[0], expected.weight, 1e-5);
  EXPECT_EQ(outputs.at("sum/accuracy")[0], expected.hits);
  EXPECT_EQ(outputs.at("weight/accuracy")[0], expected.labels);
  const Values& counted = outputs.at(std::string(kLabels));
  for (int64_t i = 0; i < kRows * kPixels; ++i) {
    const auto at = static_cast<size_t>(i);
    EXPECT_EQ(counted[at], is_labelled(i / kPixels, i % kPixels) ? feeds.at("labels")[at] : -1) << i;
  }
}

const PixelModel weighted{
    "type: classifier, ignore_index: 255, class_weights: [0.3, 0.001, 0.3]", 255, {0.3, 0.001, 0.3}};

INSTANTIATE_TEST_SUITE_P(Models, MissingLabels,
                         ::testing::Values(PixelModel{"type: tagger, input: image", -1},
                                           PixelModel{"type: classifier, ignore_index: 255", 255},
                                           PixelModel{"type: classifier, ignore_index: -100", -100},
                                           weighted));

TEST(ClassWeights, CountWhereEachPlaceHasALabel) {
  const PixelModel model{"type: classifier, class_weights: [0, 2, 0.5]", -1, {0, 2, 0.5}};
  auto feeds = pixel_feeds(model);
  for (double& label : feeds.at("labels")) label = std::max(label, 0.0);
  const auto outputs = pixel_step(model, Layouts::single(), 1, feeds);
  const ExpectedLoss expected = loss_of(outputs.at("output/logits"), feeds.at("labels"), model);
  EXPECT_NEAR(outputs.at("loss")[0], expected.sum / expected.weight, 1e-6);
  expect_close("bias", outputs.at("grad/dense/bias"), expected.bias_gradient, 1e-5, 1e-6);
  const auto split = pixel_step(model, layouts("a:3", "classes:a"), 2, feeds);
  for (const auto& [name, values] : outputs) expect_close(name, split.at(name), values, 1e-5, 1e-7);
}

TEST(ClassWeights, AreOneForEachClassAndNotAllZero) {
  TrainStepOptions options;
  options.batch_size = kRows;
  const auto refusal = [&](const std::string& keys) {
    return failure([&] {
      build_train_step(*pixel_model({"type: classifier, " + keys, 0}), kPixelFeatures, options);
    });
  };
  EXPECT_THAT(refusal("class_weights: [1, 2]"),
              ::testing::HasSubstr("`class_weights` has 2 numbers, and the model has 3 classes"));
  EXPECT_THAT(refusal("class_weights: [0, 0, 0]"), ::testing::HasSubstr("no class counts"));
  EXPECT_THAT(refusal("class_weights: [1, 2, 3], label_smoothing: 0.1"),
              ::testing::HasSubstr("`label_smoothing`"));
}

TEST(IgnoreIndex, IsTheOnlyNumberThatIsNoClass) {
  const auto model = pixel_model({"type: classifier, ignore_index: 255", 255});
  const LabelRange labels = label_range(*model, {"classes", kClassCount});
  EXPECT_TRUE(labels.contains(255) && labels.contains(0) && labels.contains(2));
  EXPECT_FALSE(labels.contains(-1) || labels.contains(3) || labels.contains(254));
  const auto plain = pixel_model({"type: classifier", 0});
  EXPECT_FALSE(label_range(*plain, {"classes", kClassCount}).contains(255));
  const auto tagger = pixel_model({"type: tagger, input: image", -1});
  EXPECT_TRUE(label_range(*tagger, {"classes", kClassCount}).contains(-7));
}

TEST(IgnoreIndex, IsNotForExamplesThatAreMixed) {
  std::vector<Feature> features = kPixelFeatures;
  features.push_back({"labels_other", Shape{{"cols", kPixels}}, DType::kInt32});
  features.push_back({"labels_weight", Shape{}, DType::kFloat32});
  TrainStepOptions options;
  options.batch_size = kRows;
  EXPECT_THAT(
      failure([&] {
        build_train_step(*pixel_model({"type: classifier, ignore_index: 255", 255}), features, options);
      }),
      ::testing::HasSubstr("`ignore_index`"));
}

}  // namespace
}  // namespace mtf::testing
