// Tests that Adam's steps do not depend on the parametrisation of a model: embeddings of variance 1 and
// queries whose scale is in their initial values (as in T5 and Mesh TensorFlow) learn like embeddings of
// variance 1 / d_model and scaled queries.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "tests/support/golden.h"
#include "tests/support/parse_model.h"
#include "tests/support/parse_optimizer.h"
#include "tests/support/run_on_mesh.h"
#include "trainer/session/step.h"

namespace mtf::testing {
namespace {

const std::vector<Feature> kShortPairs = {{"inputs", Shape{{"length", 8}}, DType::kInt32, 20},
                                          {"targets", Shape{{"length", 8}}, DType::kInt32, 20}};

std::unique_ptr<Model> translation_model(const std::string& embedding, bool folded) {
  const std::string attention =
      fmt::format("{{num_heads: 4, key_value_size: 4, fold_scaling_into_initializer: {}}}", folded);
  return parse_model(fmt::format(
      "{{type: bitransformer, d_model: 16, max_length: 8, vocab_divisor: 4, positions: sinusoid, embedding: "
      "{}, "
      "layer_defaults: {{SelfAttention: {}, EncDecAttention: {}, DenseReluDense: {{hidden_size: 32}}}}, "
      "encoder: {{num_layers: 1, block: [SelfAttention, DenseReluDense]}}, "
      "decoder: {{num_layers: 1, block: [SelfAttention, EncDecAttention, DenseReluDense]}}}}",
      embedding, attention, attention));
}

/// Returns the loss before each step.
Values losses_of_six_steps(const Model& model, const std::string& optimizer,
                           const Layouts& layouts = Layouts::single()) {
  TrainStepOptions options;
  options.batch_size = 4;
  options.update = UpdateOptions{parse_optimizer(optimizer), {0.01}, 1000, {}};
  const TrainStep step = build_train_step(model, kShortPairs, options);
  std::map<std::string, Values> feeds;
  for (const Feature& feature : kShortPairs) {
    for (int64_t i = 0; i < 4 * 8; ++i)
      feeds[feature.name].push_back(static_cast<double>(i % 8 == 7 ? 1 : 2 + (i * 7 + i / 8) % 18));
  }
  Values result;
  MeshRunOptions run;
  for (int64_t i = 0; i < 6; ++i) {
    for (const StepScalar& scalar : step.scalars) feeds[scalar.input] = {scalar.value(i)};
    const MeshRun after = run_on_mesh(*step.graph, layouts, feeds, run);
    result.push_back(after.outputs.at("loss")[0]);
    run.variables = after.variables;
  }
  return result;
}

constexpr const char* kAdam = "adam";

TEST(StepScale, AdamLearnsTheSameInBothParametrisations) {
  const Values conventional =
      losses_of_six_steps(*translation_model("{type: vocab, scale_like_classifier: true}", false), kAdam);
  const auto unit = translation_model("vocab", true);
  expect_close("adam", losses_of_six_steps(*unit, kAdam), conventional, 1e-5);
  EXPECT_LT(conventional.back(), conventional.front() - 1);
  for (const char* layout : {"batch:x", "heads:x;d_ff:x;vocab:x"})
    expect_close(layout, losses_of_six_steps(*unit, kAdam, layouts("x:2", layout)), conventional, 1e-5);
}

TEST(StepScale, WithoutItAllWeightsTakeStepsOfOneLength) {
  const auto unit = translation_model("vocab", true);
  const Values one_length = losses_of_six_steps(*unit, "{type: adam, scaled_steps: false}");
  EXPECT_GT(one_length.back(), losses_of_six_steps(*unit, kAdam).back() + 0.1);
  // The optimizer of BERT and Mesh TensorFlow is unchanged.
  const Values original = losses_of_six_steps(*unit, "adam_weight_decay");
  const Values scaled = losses_of_six_steps(*unit, "{type: adam_weight_decay, scaled_steps: true}");
  EXPECT_GT(relative_difference(scaled, original), 1e-3);
}

TEST(StepScale, FollowsTheInitialValuesOfAnEmbedding) {
  const auto losses = [](const std::string& stddev, const std::string& optimizer) {
    const std::string embedding =
        fmt::format("{{type: vocab, initializer: {{type: normal, stddev: {}}}}}", stddev);
    return losses_of_six_steps(*translation_model(embedding, false), optimizer);
  };
  const std::string one_length = "{type: adam, scaled_steps: false}";
  EXPECT_EQ(losses("1", kAdam), losses_of_six_steps(*translation_model("vocab", false), kAdam));
  // A BERT's table, whose deviation is less than the usual 1 / sqrt(d_model), takes the steps of all weights.
  EXPECT_EQ(losses("0.02", kAdam), losses("0.02", one_length));
}

}  // namespace
}  // namespace mtf::testing
