#include "trainer/session/step.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <numeric>

#include "tests/support/golden.h"
#include "tests/support/parse_model.h"
#include "tests/support/parse_optimizer.h"
#include "tests/support/run_on_mesh.h"
#include "trainer/session/evaluation_graph.h"

namespace mtf::testing {
namespace {

/// Returns a model of two dense layers with dropout between them.
std::unique_ptr<Model> dropout_classifier() {
  return parse_model(
      "{type: classifier, input: image, layers: [{dense: {output: {hidden: 8}, activation: relu}}, {dropout: "
      "0.3},"
      " {residual: {layers: [{activation: tanh}]}}, {dense: {output: {classes: 4}}}]}");
}

const std::vector<Feature> kFeatures = {{"image", Shape{{"pixels", 6}}, DType::kFloat32},
                                        {"labels", Shape{}, DType::kInt32}};

std::map<std::string, Values> batch(int64_t size) {
  std::map<std::string, Values> feeds;
  for (int64_t i = 0; i < size * 6; ++i) feeds["image"].push_back(std::sin(static_cast<double>(i)));
  for (int64_t i = 0; i < size; ++i) feeds["labels"].push_back(static_cast<double>(i * 7 % 4));
  return feeds;
}

TrainStepOptions options_of(int64_t batch_size) {
  TrainStepOptions options;
  options.batch_size = batch_size;
  options.keep_prediction = true;
  return options;
}

/// Returns the outputs of the forward and backward pass.
std::map<std::string, Values> outputs(const Model& model, const TrainStepOptions& options,
                                      const Layouts& layout = Layouts::single()) {
  const TrainStep step = build_train_step(model, kFeatures, options);
  return run_on_mesh(*step.graph, layout, batch(options.batch_size)).outputs;
}

void expect_same(const std::map<std::string, Values>& actual, const std::map<std::string, Values>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (const auto& [name, values] : expected) {
    ASSERT_TRUE(actual.contains(name)) << name;
    expect_close(name, actual.at(name), values, 2e-6, 1e-7);
  }
}

TEST(TrainStep, MicrobatchesChangeNeitherLossNorGradientsNorMasks) {
  const auto net = dropout_classifier();
  TrainStepOptions options = options_of(12);
  const auto whole = outputs(*net, options);
  ASSERT_TRUE(whole.contains("grad/dense/kernel"));
  for (const int64_t microbatches : {2, 3, 6}) {
    options.microbatches = microbatches;
    SCOPED_TRACE(fmt::format("{} microbatches", microbatches));
    expect_same(outputs(*net, options), whole);
    if (12 / microbatches % 2 == 0) {
      expect_same(outputs(*net, options, layouts("x:2;y:2", "batch:x;hidden:y")), whole);
      expect_same(outputs(*net, options, layouts("x:2", "batch:x", "hidden:x")), whole);
    }
  }
}

TEST(TrainStep, MicrobatchesDivideTheBatch) {
  TrainStepOptions options = options_of(10);
  options.microbatches = 3;
  EXPECT_THROW(build_train_step(*dropout_classifier(), kFeatures, options), Error);
}

TEST(TrainStep, RecomputationChangesNothing) {
  const auto net = dropout_classifier();
  TrainStepOptions options = options_of(12);
  const auto kept = outputs(*net, options);
  const std::vector<Recompute> choices = {
      RecomputeWord::kBlock,
      std::vector<std::string>{"dense"},
      std::vector<std::string>{"dropout", "residual"},
      std::vector<std::string>{"/activation"},
      config::Named<int64_t>{{"dense", 1}, {"residual", 0}},
  };
  for (const auto& recompute : choices) {
    options.recompute = recompute;
    expect_same(outputs(*net, options), kept);
    expect_same(outputs(*net, options, layouts("x:2;y:2", "batch:x;hidden:y")), kept);
    options.microbatches = 2;
    expect_same(outputs(*net, options), kept);
    options.microbatches = 1;
  }
}

TEST(TrainStep, RecomputationRepeatsTheForwardPassOfTheLayersNamed) {
  TrainStepOptions options = options_of(12);
  const auto tanh_in = [&] {
    const TrainStep step = build_train_step(*dropout_classifier(), kFeatures, options);
    int64_t count = 0;
    for (const auto& operation : step.graph->root()) count += operation->name() == "tanh";
    return count;
  };
  EXPECT_EQ(tanh_in(), 1);
  options.recompute = RecomputeWord::kBlock;
  EXPECT_EQ(tanh_in(), 2);
  options.recompute = std::vector<std::string>{"^residual/act"};
  EXPECT_EQ(tanh_in(), 2);
  options.recompute = config::Named<int64_t>{{"residual", 1}};
  EXPECT_EQ(tanh_in(), 2);
  options.recompute = config::Named<int64_t>{{"residual", 0}};
  EXPECT_EQ(tanh_in(), 1);
}

TEST(TrainStep, RecomputationCountsTheLayersInTheOrderInWhichTheyAreApplied) {
  TrainStepOptions options = options_of(12);
  const auto relu_in = [&](int64_t number) {
    options.recompute = config::Named<int64_t>{{"dense", number}};
    const TrainStep step = build_train_step(*dropout_classifier(), kFeatures, options);
    EXPECT_EQ(step.layers.size(), 5u);  // activation is inside of residual
    int64_t count = 0;
    for (const auto& operation : step.graph->root()) count += operation->name() == "relu";
    return count;
  };
  EXPECT_EQ(relu_in(0), 1);
  EXPECT_EQ(relu_in(1), 2);
  EXPECT_EQ(relu_in(2), 2);
  EXPECT_THAT([&] { relu_in(3); },
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr(
                  "`train.recompute` wants 3 of the layers `dense`, and the model has 2; a number up to 2")));
  options.recompute = std::vector<std::string>{"dens"};
  EXPECT_THAT([&] { build_train_step(*dropout_classifier(), kFeatures, options); },
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr("did you mean `dense`?")));
  options.recompute = std::vector<std::string>{"residual/block"};
  EXPECT_THAT([&] { build_train_step(*dropout_classifier(), kFeatures, options); },
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr(
                  "the model has no such layer; one of `dense`, `dropout`, `residual`")));
}

TEST(TrainStep, OnlyTrainableVariablesGetGradients) {
  TrainStepOptions options = options_of(4);
  options.trainable = {"^dense_1/", "bias"};
  const auto result = outputs(*dropout_classifier(), options);
  EXPECT_TRUE(result.contains("grad/dense_1/kernel"));
  EXPECT_TRUE(result.contains("grad/dense/bias"));
  EXPECT_FALSE(result.contains("grad/dense/kernel"));
}

TEST(TrainStep, FrozenWeightsHaveNeitherGradientsNorSlots) {
  TrainStepOptions options = options_of(4);
  options.rules =
      parse_optimizer("{type: adam, rules: [{match: bias, frozen: false}, {match: ^dense/, frozen: true}]}")
          ->rules;
  const auto result = outputs(*dropout_classifier(), options);
  EXPECT_TRUE(result.contains("grad/dense_1/kernel"));
  EXPECT_TRUE(result.contains("grad/dense/bias"));
  EXPECT_FALSE(result.contains("grad/dense/kernel"));
  options.update = UpdateOptions{parse_optimizer("adam"), {0.1}, 10, {}};
  const TrainStep step = build_train_step(*dropout_classifier(), kFeatures, options);
  EXPECT_NE(step.graph->find_variable("dense/bias/adam_m"), nullptr);
  EXPECT_EQ(step.graph->find_variable("dense/kernel/adam_m"), nullptr);
  options.rules[0].match = {"bais"};
  EXPECT_THAT(
      [&] { build_train_step(*dropout_classifier(), kFeatures, options); },
      ::testing::ThrowsMessage<Error>(::testing::HasSubstr("`optimizer.rules`: no variable matches `bais`")));
}

/// The gradient of the mean loss over the examples `first`, `first` + `every`, ... of a batch of 12, as one vector.
Values gradient_of_part(const Model& model, int64_t first, int64_t every) {
  const auto all = batch(12);
  std::map<std::string, Values> feeds;
  for (int64_t i = first; i < 12; i += every) {
    for (int64_t pixel = 0; pixel < 6; ++pixel) feeds["image"].push_back(all.at("image")[i * 6 + pixel]);
    feeds["labels"].push_back(all.at("labels")[i]);
  }
  const TrainStep step = build_train_step(model, kFeatures, options_of(12 / every));
  Values gradient;
  for (const auto& [name, values] : run_on_mesh(*step.graph, Layouts::single(), feeds).outputs) {
    if (name.starts_with("grad/")) gradient.insert(gradient.end(), values.begin(), values.end());
  }
  return gradient;
}

double square_norm(const Values& x) { return std::inner_product(x.begin(), x.end(), x.begin(), 0.0); }

TEST(TrainStep, TheNoiseScaleComparesMicrobatchesWithTheBatchOnEveryLayout) {
  const auto net = parse_model(
      "{type: classifier, input: image, layers: [{dense: {output: {hidden: 8}, activation: tanh}}, "
      "{dense: {output: {classes: 4}}}]}");
  TrainStepOptions options = options_of(12);
  options.microbatches = 3;
  options.noise_scale_decay = 0.75;
  options.update = UpdateOptions{parse_optimizer("sgd"), {0.0}, 10, {}};
  double small = 0;
  for (int64_t part = 0; part < 3; ++part) small += square_norm(gradient_of_part(*net, part, 3)) / 3;
  const double large = square_norm(gradient_of_part(*net, 0, 1));
  const double signal = (12 * large - 4 * small) / (12 - 4), noise = (small - large) / (1.0 / 4 - 1.0 / 12);
  const TrainStep step = build_train_step(*net, kFeatures, options);
  for (const Layouts& layout :
       {Layouts::single(), layouts("x:2", "batch:x"), layouts("x:2", "hidden:x"),
        layouts("x:2;y:2", "batch:x;hidden:y"), layouts("x:2", "batch:x", "hidden:x")}) {
    std::map<std::string, Values> feeds = batch(12);
    for (const StepScalar& scalar : step.scalars) feeds[scalar.input] = {scalar.value(0)};
    const MeshRun run = run_on_mesh(*step.graph, layout, feeds);
    EXPECT_NEAR(run.outputs.at("report/gradient_noise_scale")[0], noise / signal,
                1e-4 * std::abs(noise / signal));
    EXPECT_NEAR(run.variables.at("gradient_noise")[0], 0.25 * noise, 1e-5 * noise);
    EXPECT_NEAR(run.variables.at("gradient_signal")[0], 0.25 * signal, 1e-4 * std::abs(signal));
  }
}

TEST(TrainStep, KeepsTheTensorsThatPatternsName) {
  TrainStepOptions options = options_of(4);
  options.keep = {"^dense/relu$"};
  const auto result = outputs(*dropout_classifier(), options);
  ASSERT_TRUE(result.contains("tensor/dense/relu"));
  EXPECT_EQ(result.at("tensor/dense/relu").size(), 4u * 8u);
}

TEST(TrainStep, AMissingFeatureIsNamed) {
  try {
    build_train_step(*dropout_classifier(), {kFeatures[1]}, options_of(4));
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("`image`"));
  }
}

TEST(Evaluation, FillingRowsDoNotCount) {
  const auto net = dropout_classifier();
  const auto graph = build_evaluation(*net, kFeatures, 6, {}).graph;
  auto feeds = batch(6);
  feeds[std::string(kWeightsInput)] = {1, 1, 1, 1, 1, 1};
  const auto six = run_on_mesh(*graph, Layouts::single(), feeds).outputs;
  EXPECT_EQ(six.at("examples")[0], 6);
  feeds[std::string(kWeightsInput)] = {1, 1, 1, 1, 0, 0};
  const auto four = run_on_mesh(*graph, Layouts::single(), feeds).outputs;
  EXPECT_EQ(four.at("examples")[0], 4);
  for (int64_t i = 24; i < 36; ++i) feeds["image"][i] = std::nan("");  // padding rows may contain anything
  const auto filled = run_on_mesh(*graph, layouts("x:2", "batch:x"), feeds).outputs;
  EXPECT_NEAR(filled.at("sum/loss")[0], four.at("sum/loss")[0], 1e-6);
  EXPECT_EQ(filled.at("sum/accuracy"), four.at("sum/accuracy"));
}

}  // namespace
}  // namespace mtf::testing
