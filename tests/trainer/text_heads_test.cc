// Classifiers, taggers, spans and masked language models over a Transformer's tokens: padding changes nothing, and no layout and no number of
// microbatches changes a step or an evaluation.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>

#include "tests/support/golden.h"
#include "tests/support/parse_model.h"
#include "tests/support/parse_optimizer.h"
#include "tests/support/run_on_mesh.h"
#include "trainer/session/step.h"

namespace mtf::testing {
namespace {

constexpr int64_t kRows = 8, kTokens = 8, kPredictions = 2;

constexpr const char* kEncoder = R"([
  embedding: {output: {d_model: 8}},
  token_types,
  positions: learned,
  transformer: {num_layers: 2, block: [{SelfAttention: {num_heads: 2, key_value_size: 4, bias: true, bias_initializer: {type: normal, stddev: 0.5}}},
    {DenseReluDense: {hidden_size: 16, activation: gelu_erf, bias: true}}]},
)";

struct Head {
  std::string name, model, layers;
  std::vector<Feature> targets;
};
std::ostream& operator<<(std::ostream& out, const Head& head) { return out << head.name; }

class TextHeads : public ::testing::TestWithParam<Head> {
 protected:
  std::unique_ptr<Model> model() const {
    return parse_model(fmt::format("{{{}, layers: {}{}]}}", GetParam().model, kEncoder, GetParam().layers));
  }

  std::vector<Feature> features() const {
    const Shape row{{"length", kTokens}};
    std::vector<Feature> features{{"inputs", row, DType::kInt32, 20},
                                  {"inputs_segmentation", row, DType::kInt32},
                                  {"inputs_type", row, DType::kInt32, 2}};
    features.insert(features.end(), GetParam().targets.begin(), GetParam().targets.end());
    return features;
  }

  /// Row r has 3 + r % 5 tokens, of which the last two are of the second text. `padding` is the id in the padding.
  static std::map<std::string, Values> feeds(const std::vector<Feature>& features, int padding = 0) {
    std::map<std::string, Values> feeds;
    for (int64_t row = 0; row < kRows; ++row) {
      const int64_t length = 3 + row % 5;
      for (int64_t i = 0; i < kTokens; ++i) {
        const bool token = i < length;
        feeds["inputs"].push_back(token ? static_cast<double>((row * 7 + i * 3) % 17 + 2) : padding);
        feeds["inputs_segmentation"].push_back(token);
        feeds["inputs_type"].push_back(token && i >= length - 2);
        feeds["tags"].push_back(token && i > 0 && i % 2 == 1 ? static_cast<double>((row + i) % 4) : -1);
        feeds["answer_mask"].push_back(i == 0 || (token && i >= length - 2));
      }
      feeds["class"].push_back(static_cast<double>(row % 4));
      feeds["y"].push_back(static_cast<double>(row) / 4);
      feeds["next_sentence"].push_back(static_cast<double>(row % 2));
      for (int64_t i = 0; i < kPredictions; ++i) {
        feeds["targets"].push_back(i < 1 + row % 2 ? static_cast<double>((row + i) % 17 + 2) : 0);
        feeds["targets_place"].push_back(static_cast<double>(i < 1 + row % 2 ? i + 1 : 0));
      }
      feeds["answer_start"].push_back(static_cast<double>(row % 3 == 0 ? 0 : length - 2));
      feeds["answer_end"].push_back(static_cast<double>(row % 3 == 0 ? 0 : length - 1));
    }
    std::map<std::string, Values> wanted;
    for (const Feature& feature : features) wanted[feature.name] = feeds.at(feature.name);
    return wanted;
  }

  MeshRun train(const Layouts& layouts, int64_t microbatches) const {
    TrainStepOptions options;
    options.batch_size = kRows;
    options.microbatches = microbatches;
    options.update = UpdateOptions{parse_optimizer("adam"), {0.01}, 10, {}};
    const TrainStep step = build_train_step(*model(), features(), options);
    std::map<std::string, Values> inputs = feeds(features());
    for (const StepScalar& scalar : step.scalars) inputs[scalar.input] = {scalar.value(0)};
    return run_on_mesh(*step.graph, layouts, inputs);
  }

  MeshRun evaluate(const Layouts& layouts, int padding = 0) const {
    EvaluationGraphOptions options;
    options.keep_predictions = true;
    const auto graph = build_evaluation(*model(), features(), kRows, options);
    std::map<std::string, Values> inputs = feeds(features(), padding);
    inputs[std::string(kWeightsInput)] = Values(kRows, 1);
    return run_on_mesh(*graph, layouts, inputs);
  }

  static std::vector<Layouts> meshes() {
    return {layouts("a:2", "batch:a"),   layouts("a:2", "heads:a;d_ff:a"),
            layouts("a:2", "d_model:a"), layouts("a:2;b:2", "batch:a;heads:b;d_ff:b"),
            layouts("a:8", "batch:a"),   layouts("a:2", "length:a")};
  }
};

TEST_P(TextHeads, ATrainingStepIsTheSameOnEveryLayout) {
  const MeshRun expected = train(Layouts::single(), 1);
  EXPECT_GT(expected.outputs.at("loss")[0], 0);
  EXPECT_GT(expected.outputs.at("grad_norm")[0], 0);
  for (const Layouts& layouts : meshes()) {
    const MeshRun run = train(layouts, 1);
    for (const auto& [name, values] : expected.outputs)
      expect_close(name, run.outputs.at(name), values, 1e-5);
  }
  const MeshRun parts = train(layouts("a:2", "batch:a"), 4);
  for (const auto& [name, values] : expected.outputs)
    expect_close(name, parts.outputs.at(name), values, 1e-5);
}

TEST_P(TextHeads, AnEvaluationIsTheSameOnEveryLayout) {
  const MeshRun expected = evaluate(Layouts::single());
  for (const Layouts& layouts : meshes()) {
    const MeshRun run = evaluate(layouts);
    for (const auto& [name, values] : expected.outputs)
      expect_close(name, run.outputs.at(name), values, 1e-5);
  }
}

TEST_P(TextHeads, PaddingIsNotSeen) {
  const MeshRun expected = evaluate(Layouts::single()), other = evaluate(Layouts::single(), 9);
  for (const auto& [name, values] : expected.outputs) {
    if (!name.starts_with("sum/")) continue;
    EXPECT_EQ(other.outputs.at(name), values) << name;
  }
}

TEST(MaskedLm, CapsItsLogits) {
  const auto logits = [](std::string_view cap) {
    const auto model =
        parse_model(fmt::format("{{type: masked_lm{}, layers: {}layer_norm]}}", cap, kEncoder));
    const Shape row{{"length", kTokens}}, places{{"predictions", kPredictions}};
    const std::vector<Feature> features{{"inputs", row, DType::kInt32, 20},
                                        {"targets", places, DType::kInt32, 20},
                                        {"targets_place", places, DType::kInt32}};
    TrainStepOptions options;
    options.batch_size = 2;
    options.keep_prediction = true;
    const TrainStep step = build_train_step(*model, features, options);
    std::map<std::string, Values> feeds{{"targets", {3, 4, 5, 0}}, {"targets_place", {1, 6, 3, 0}}};
    for (int i = 0; i < 2 * kTokens; ++i) feeds["inputs"].push_back(2 + i % 17);
    return run_on_mesh(*step.graph, Layouts::single(), feeds).outputs.at("output/logits");
  };
  Values expected = logits("");
  for (double& logit : expected) logit = 0.2 * std::tanh(logit / 0.2);
  expect_close("logits", logits(", logit_soft_cap: 0.2"), expected, 1e-6);
}

const Shape kRow{{"length", kTokens}}, kPlaces{{"predictions", kPredictions}};

INSTANTIATE_TEST_SUITE_P(Heads, TextHeads,
                         ::testing::Values(Head{"classifier",
                                                "type: classifier, input: inputs, labels: class",
                                                "pooler, dense: {output: {classes: 4}}",
                                                {{"class", {}, DType::kInt32}}},
                                           Head{"mean_of_tokens",
                                                "type: classifier, input: inputs, labels: class",
                                                "pooler: mean, dense: {output: {classes: 4}}",
                                                {{"class", {}, DType::kInt32}}},
                                           Head{"regression",
                                                "type: regression, input: inputs",
                                                "pooler, dense: {output: {targets: 1}}",
                                                {{"y", {{"targets", 1}}, DType::kFloat32}}},
                                           Head{"tagger",
                                                "type: tagger, labels: tags",
                                                "dense: {output: {tags: 4}}",
                                                {{"tags", kRow, DType::kInt32}}},
                                           Head{"spans",
                                                "type: spans",
                                                "dense: {output: {span: 2}}",
                                                {{"answer_mask", kRow, DType::kInt32},
                                                 {"answer_start", {}, DType::kInt32},
                                                 {"answer_end", {}, DType::kInt32}}},
                                           Head{"masked_lm",
                                                "type: masked_lm",
                                                "layer_norm",
                                                {{"targets", kPlaces, DType::kInt32, 20},
                                                 {"targets_place", kPlaces, DType::kInt32}}},
                                           Head{"capped_masked_lm",
                                                "type: masked_lm, logit_soft_cap: 0.2",
                                                "layer_norm",
                                                {{"targets", kPlaces, DType::kInt32, 20},
                                                 {"targets_place", kPlaces, DType::kInt32}}},
                                           Head{"pretraining",
                                                "type: masked_lm",
                                                "layer_norm",
                                                {{"targets", kPlaces, DType::kInt32, 20},
                                                 {"targets_place", kPlaces, DType::kInt32},
                                                 {"next_sentence", {}, DType::kInt32}}}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace mtf::testing
