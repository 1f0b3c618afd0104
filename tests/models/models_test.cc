#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "engine/config/load.h"
#include "engine/graph/gradients.h"
#include "models/model.h"
#include "tests/support/evaluate_tensors.h"
#include "tests/support/failure.h"
#include "tests/support/golden.h"

namespace mtf::testing {
namespace {

using ::testing::DoubleNear;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pointwise;

/// A model from a section `model`, built on a batch.
struct Built {
  Built(const config::Node& section, const std::map<std::string, std::pair<Shape, DType>>& inputs,
        Mode mode = Mode::kTrain)
      : context(graph, mode, {}, inputs.begin()->second.first[0]) {
    Diagnostics diagnostics;
    model = make_model(section, diagnostics);
    diagnostics.throw_if_errors();
    for (const auto& [name, type] : inputs) features[name] = graph.input(name, type.first, type.second);
    output = model->build(context, features);
  }
  std::vector<std::string> variables() const {
    std::vector<std::string> result;
    for (const auto& variable : graph.variables())
      result.push_back(variable->name + " " + variable->shape.to_string());
    return result;
  }
  Values evaluate(const Tensor& tensor, const std::map<std::string, Values>& feeds,
                  const std::map<std::string, Values>& weights) const {
    return testing::evaluate(graph, {tensor}, feeds, {.variables = weights})[0];
  }

  Graph graph;
  Context context;
  std::unique_ptr<Model> model;
  Features features;
  ModelOutput output;
};

config::Node section(const std::string& text) {
  Diagnostics diagnostics;
  const config::Node node = config::parse_yaml(text, "model.yaml", diagnostics);
  diagnostics.throw_if_errors();
  return node;
}

/// Returns section `model` of a shipped file.
config::Node shipped(const std::string& file, const std::vector<std::string>& arguments = {}) {
  Diagnostics diagnostics;
  const config::Node root = config::load({MTF_SOURCE_DIR "/configs/models/" + file}, arguments, diagnostics);
  diagnostics.throw_if_errors();
  return *root.find("model");
}

std::string error_of(const config::Node& section,
                     const std::map<std::string, std::pair<Shape, DType>>& inputs) {
  try {
    const Built built(section, inputs);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

std::map<std::string, std::pair<Shape, DType>> images(int64_t batch, const Shape& image) {
  return {{"image", {Shape{{"batch", batch}} + image, DType::kFloat32}},
          {"labels", {{{"batch", batch}}, DType::kInt32}}};
}

const std::string kClassifier =
    "{type: classifier, layers: [dense: {name: d, output: {classes: 3}, bias: false}]";

TEST(Classifier, LossIsTheMeanCrossEntropyOfTheExamples) {
  const Built built(section(kClassifier + "}"), images(2, {{"pixels", 1}}));
  const std::map<std::string, Values> feeds = {{"image", {1, 0}}, {"labels", {2, 0}}};
  const std::map<std::string, Values> weights = {{"d/kernel", {1, 2, 3}}};
  EXPECT_EQ(built.output.logits.shape(), (Shape{{"batch", 2}, {"classes", 3}}));
  EXPECT_EQ(built.output.classes, (Dimension{"classes", 3}));
  EXPECT_THAT(built.evaluate(built.output.metrics.at("loss").value, feeds, weights),
              Pointwise(DoubleNear(1e-6), Values{0.407606, std::log(3)}));
  EXPECT_NEAR(built.evaluate(built.output.loss, feeds, weights)[0], (0.407606 + std::log(3)) / 2, 1e-6);
  EXPECT_THAT(built.variables(), ElementsAre("d/kernel [pixels=1, classes=3]"));
}

TEST(Classifier, SmoothsLabelsAndAddsTheZLossInTrainingOnly) {
  const config::Node model = section(
      "{type: classifier, label_smoothing: 0.1, z_loss: 0.0001, layers: [dense: {name: d, output: {classes: "
      "4}, "
      "bias: false}]}");
  const auto loss = [&](Mode mode) {
    const Built built(model, images(1, {{"pixels", 1}}), mode);
    return built.evaluate(built.output.loss, {{"image", {1}}, {"labels", {2}}},
                          {{"d/kernel", {1, 2, 3, 0}}})[0];
  };
  EXPECT_NEAR(loss(Mode::kTrain), 0.5913731, 1e-6);
  EXPECT_NEAR(loss(Mode::kEvaluate), 0.5901896, 1e-6);
}

TEST(Classifier, AccuracyIsGivenForEachExampleInEvaluation) {
  const Built built(section(kClassifier + "}"), images(3, {{"pixels", 1}}), Mode::kEvaluate);
  EXPECT_EQ(built.evaluate(built.output.metrics.at("accuracy").value,
                           {{"image", {1, 1, -1}}, {"labels", {2, 1, 0}}}, {{"d/kernel", {1, 2, 3}}}),
            (Values{1, 0, 1}));
  EXPECT_FALSE(
      Built(section(kClassifier + "}"), images(3, {{"pixels", 1}})).output.metrics.contains("accuracy"));
  for (const std::string& name : built.model->metrics())
    EXPECT_TRUE(built.output.metrics.contains(name) || !measured_by_default(name)) << name;
}

TEST(Classifier, TopFiveTakesTheFirstOfEqualLogits) {
  const config::Node model =
      section("{type: classifier, layers: [dense: {name: d, output: {classes: 7}, bias: false}]}");
  const Built built(model, images(7, {{"pixels", 1}}), Mode::kEvaluate);
  const std::map<std::string, Values> feeds = {{"image", Values(7, 1)}, {"labels", {0, 1, 2, 3, 4, 5, 6}}};
  const std::map<std::string, Values> weights = {{"d/kernel", {1, 0, 0, 0, 0, 2, 0}}};
  EXPECT_EQ(built.evaluate(built.output.metrics.at("top_5_accuracy").value, feeds, weights),
            (Values{1, 1, 1, 1, 0, 1, 0}));
  EXPECT_EQ(built.evaluate(built.output.classification->prediction, feeds, weights), Values(7, 5));
  EXPECT_THAT(built.evaluate(built.output.classification->probability, feeds, weights),
              Each(DoubleNear(std::exp(2) / (std::exp(2) + std::exp(1) + 5), 1e-6)));
  EXPECT_FALSE(Built(section(kClassifier + "}"), images(3, {{"pixels", 1}}), Mode::kEvaluate)
                   .output.metrics.contains("top_5_accuracy"));
}

TEST(Classifier, LayersComputeWithWholeNumbers) {
  auto inputs = images(2, {{"pixels", 1}});
  inputs["image"].second = DType::kInt32;
  const Built built(section(kClassifier + "}"), inputs);
  EXPECT_NEAR(built.evaluate(built.output.loss, {{"image", {1, 0}}, {"labels", {2, 0}}},
                             {{"d/kernel", {1, 2, 3}}})[0],
              (0.407606 + std::log(3)) / 2, 1e-6);
  inputs["image"].second = DType::kBool;
  EXPECT_EQ(error_of(section(kClassifier + "}"), inputs), "");
}

TEST(Classifier, LabelsAreWholeNumbers) {
  auto inputs = images(2, {{"pixels", 1}});
  inputs["labels"].second = DType::kFloat32;
  EXPECT_THAT(
      error_of(section(kClassifier + "}"), inputs),
      ::testing::AllOf(HasSubstr("model.yaml:1:29: feature `labels` is float32 [batch=2], and labels are "
                                 "the numbers of classes"),
                       HasSubstr("whole numbers from 0 to 2 of the dimensions [batch=2]")));
}

TEST(Classifier, NameIsTheScopeOfAllVariables) {
  const Built built(section(kClassifier + ", name: net}"), images(2, {{"pixels", 1}}));
  EXPECT_THAT(built.variables(), ElementsAre("net/d/kernel [pixels=1, classes=3]"));
}

TEST(Classifier, SaysWhatDoesNotFit) {
  const auto inputs = images(2, {{"rows", 2}, {"cols", 2}});
  EXPECT_THAT(
      error_of(section("{type: classifier, layers: [dense: {output: {classes: 3}, over: cols}]}"), inputs),
      HasSubstr(
          "model.yaml:1:29: logits are [batch=2, rows=2, classes=3], but feature `labels` is [batch=2]"));
  EXPECT_THAT(error_of(section("{type: classifier, layers: [dense: {output: {a: 3, b: 4}}]}"), inputs),
              HasSubstr("makes one dimension, the classes; here it makes [a=3, b=4]"));
  EXPECT_THAT(error_of(section("{type: classifier, input: imag, layers: [dense: {output: {c: 3}}]}"), inputs),
              HasSubstr("the data have no feature `imag`; did you mean `image`?"));
  EXPECT_THAT(
      error_of(section("{type: classifier, layers: [dens: {output: {c: 3}}], label_smoothing: 2}"), inputs),
      ::testing::AllOf(HasSubstr("did you mean `dense`?"), HasSubstr("model.label_smoothing")));
  EXPECT_THAT(error_of(section("{type: classifier}"), inputs), HasSubstr("layers"));
  EXPECT_THAT(error_of(section(kClassifier + ", loss: cross_entropie}"), inputs),
              HasSubstr("did you mean `cross_entropy`?"));
}

const std::map<std::string, std::pair<Shape, DType>> kNumbers = {
    {"x", {{{"batch", 2}, {"io", 2}}, DType::kFloat32}}, {"y", {{{"batch", 2}, {"io", 2}}, DType::kFloat32}}};

TEST(Regression, LossIsTheMeanOverAllElements) {
  const std::map<std::string, Values> feeds = {{"x", {1, 2, 3, 4}}, {"y", {1, 1, 1, 1}}};
  const auto loss = [&](const std::string& options) {
    const Built built(section("{type: regression, layers: [scale: 2]" + options + "}"), kNumbers);
    return built.evaluate(built.output.loss, feeds, {})[0];
  };
  EXPECT_DOUBLE_EQ(loss(""), (1 + 9 + 25 + 49) / 4.0);
  EXPECT_DOUBLE_EQ(loss(", loss: mean_absolute_error"), (1 + 3 + 5 + 7) / 4.0);
  EXPECT_DOUBLE_EQ(loss(", loss: {mean_squared_error: 0.5, mean_absolute_error: 2}"), 21 * 0.5 + 4 * 2);
}

TEST(Regression, SaysWhatDoesNotFit) {
  EXPECT_THAT(error_of(section("{type: regression, layers: [dense: {output: {out: 2}}]}"), kNumbers),
              HasSubstr("the layers make [batch=2, out=2], but feature `y` is [batch=2, io=2]"));
  EXPECT_THAT(
      error_of(section("{type: regression, layers: [scale: 2], loss: {mean_squared_eror: 1}}"), kNumbers),
      HasSubstr("did you mean `mean_squared_error`?"));
}

TEST(ModelOptions, UnknownTypesAreRefused) {
  EXPECT_THAT(error_of(section("{type: classifer}"), kNumbers), HasSubstr("did you mean `classifier`?"));
}

TEST(ShippedModels, MnistHasTwoLayers) {
  const Built built(shipped("mnist.yaml"), images(200, {{"rows", 28}, {"cols", 28}}));
  EXPECT_THAT(built.variables(),
              ElementsAre("layer_1/kernel [rows=28, cols=28, hidden=1024]", "layer_1/bias [hidden=1024]",
                          "layer_2/kernel [hidden=1024, classes=10]", "layer_2/bias [classes=10]"));
}

TEST(ShippedModels, MnistDropoutHasTheSameVariables) {
  const auto inputs = images(200, {{"rows", 28}, {"cols", 28}});
  EXPECT_EQ(Built(shipped("mnist_dropout.yaml"), inputs).variables(),
            Built(shipped("mnist.yaml"), inputs).variables());
}

TEST(ShippedModels, ToyAgreesWithTheReference) {
  const GoldenCase golden(MTF_SOURCE_DIR "/tests/golden/02_toy_sgd");
  const Shape shape = {{"batch", 8}, {"io", 6}};
  Built built(shipped("toy.yaml", {"vars.io_size=6", "vars.hidden_size=12"}),
              {{"x", {shape, DType::kFloat32}}, {"y", {shape, DType::kFloat32}}});
  EXPECT_THAT(built.variables(),
              ElementsAre("layer_1/kernel [io=6, hidden_odd=12]", "layer_2/kernel [hidden_odd=12, io=6]"));
  const Values x = golden.at("input/x").values;
  std::map<std::string, Values> weights;
  Tensors reads;
  for (const std::string& name : golden.names("weight/")) {
    weights[name] = golden.at("weight/" + name).values;
    reads.push_back(built.graph.read(*built.graph.find_variable(name)));
  }
  Tensors results = gradients({built.output.loss}, reads);
  results.push_back(built.output.loss);
  results.push_back(built.output.logits);
  const std::vector<Values> values =
      evaluate(built.graph, results, {{"x", x}, {"y", x}}, {.variables = weights});
  expect_close("layer_1/kernel", values[0], golden.at("grad/layer_1/kernel").values, 1e-4);
  expect_close("layer_2/kernel", values[1], golden.at("grad/layer_2/kernel").values, 1e-4);
  expect_close("loss", values[2], golden.at("loss").values, 1e-5);
  expect_close("y", values[3], golden.at("output/y").values, 1e-5);
}

TEST(ShippedModels, ToyAlternatesOddAndEvenHiddenLayers) {
  const Shape shape = {{"batch", 8}, {"io", 16}};
  const Built built(shipped("toy.yaml", {"vars.more_pairs=1"}),
                    {{"x", {shape, DType::kFloat32}}, {"y", {shape, DType::kFloat32}}});
  EXPECT_THAT(built.variables(), ElementsAre("layer_1/kernel [io=16, hidden_odd=16]",
                                             "more/000/even/kernel [hidden_odd=16, hidden_even=16]",
                                             "more/000/odd/kernel [hidden_even=16, hidden_odd=16]",
                                             "layer_2/kernel [hidden_odd=16, io=16]"));
}

TEST(TokenEmbeddingLayer, ReadsTheIdsOfTheModelsInput) {
  const auto model = parse_model(
      "{type: classifier, input: inputs, labels: targets, layers: [embedding: {output: {d_model: 8}}, dense: "
      "{output: "
      "{tags: "
      "5}}]}");
  Graph graph;
  const Dimension batch{"batch", 2}, length{"length", 6};
  Context context(graph, Mode::kTrain, {}, batch);
  context.set_vocabularies({{"inputs", 130}});
  const ModelOutput output =
      model->build(context, {{"inputs", graph.input("inputs", {batch, length}, DType::kInt32)},
                             {"targets", graph.input("targets", {batch, length}, DType::kInt32)}});
  EXPECT_EQ(output.logits.shape(), (Shape{batch, length, {"tags", 5}}));
  ASSERT_NE(graph.find_variable("embedding/embedding"), nullptr);
  EXPECT_EQ(graph.find_variable("embedding/embedding")->shape, (Shape{{"vocab", 256}, {"d_model", 8}}));
}

TEST(TokenEmbeddingLayer, GetsIdsThatNoVocabularyCounts) {
  const Shape ids{{"batch", 2}, {"length", 6}};
  const Built built(
      section("{type: classifier, input: ids, blocks: {front: [embedding: {output: {d_model: 8}, "
              "size: 9}]}, layers: [{block: {use: front}}, {mean: {over: length}}, {dense: {output: "
              "{classes: 3}}}]}"),
      {{"ids", {ids, DType::kInt32}}, {"labels", {{{"batch", 2}}, DType::kInt32}}});
  EXPECT_EQ(built.output.logits.shape(), (Shape{{"batch", 2}, {"classes", 3}}));
}

TEST(TokenEmbeddingLayer, IsNeededForIdsOfAVocabulary) {
  const auto model = parse_model("{type: regression, layers: [scale: 2]}");
  Graph graph;
  const Dimension batch{"batch", 2}, length{"length", 6};
  Context context(graph, Mode::kTrain, {}, batch);
  context.set_vocabularies({{"x", 130}});
  const Features features = {{"x", graph.input("x", {batch, length}, DType::kInt32)},
                             {"y", graph.input("y", {batch, length})}};
  EXPECT_THAT(failure([&] { model->build(context, features); }, ErrorKind::kConfig),
              ::testing::AllOf(HasSubstr("feature `x` has ids of a vocabulary, and no layer looks them up"),
                               HasSubstr("begin with `embedding")));
}

TEST(TokenEmbeddingLayer, NeedsIdsAndTheirNumber) {
  const auto fails = [](const std::string& layer, DType dtype) {
    const auto model = parse_model("{type: regression, layers: [" + layer + "]}");
    Graph graph;
    const Dimension batch{"batch", 2}, length{"length", 6};
    Context context(graph, Mode::kTrain, {}, batch);
    try {
      model->build(context,
                   {{"x", graph.input("x", {batch, length}, dtype)}, {"y", graph.input("y", {batch})}});
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(fails("embedding: {output: {d_model: 8}}", DType::kInt32),
              HasSubstr("it is not known how many ids there are"));
  EXPECT_THAT(fails("embedding: {output: {d_model: 8}, size: 9}", DType::kFloat32), HasSubstr("not ids"));
}

}  // namespace
}  // namespace mtf::testing
