// Tests the metrics of predicted tokens on small logits and targets.
#include "models/token_loss.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/parse_model.h"
#include "tests/support/run_on_mesh.h"
#include "trainer/session/evaluation_graph.h"
#include "trainer/session/step.h"

namespace mtf::testing {
namespace {

using ::testing::Contains;

/// A model whose logits are a feature, [batch, length, vocab].
class GivenLogits final : public Model {
 public:
  explicit GivenLogits(const TokenLossOptions& options, bool with_weights = false)
      : options_(options), with_weights_(with_weights) {}
  std::vector<std::string> features() const override { return {"logits", "targets", "scored"}; }
  std::vector<std::string> metrics() const override { return token_metrics(); }
  ModelOutput build(Context& context, const Features& features) const override {
    ModelOutput output;
    TokenWeights weights;
    if (with_weights_) weights.metrics = features.at("scored");
    const auto given = [](const Tensor& logits) { return logits; };
    token_loss(context, options_, {features.at("logits"), given, "vocab"}, features.at("targets"), weights,
               output);
    return output;
  }

 private:
  TokenLossOptions options_;
  bool with_weights_;
};

constexpr int64_t kRows = 4, kLength = 3, kVocabulary = 5;
const std::vector<Feature> kFeatures = {
    {"logits", {{"length", kLength}, {"vocab", kVocabulary}}, DType::kFloat32},
    {"targets", {{"length", kLength}}, DType::kInt32},
    {"scored", {{"length", kLength}}, DType::kFloat32}};

/// Row 0 is right in all its tokens, row 1 in one of three; row 2 is empty, row 3 has weight 0.
std::map<std::string, Values> feeds() {
  std::map<std::string, Values> feeds{{"targets", {2, 4, 0, 3, 1, 2, 0, 0, 0, 4, 4, 4}},
                                      {"scored", {1, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1, 1}},
                                      {std::string(kWeightsInput), {1, 1, 1, 0}},
                                      {"logits", Values(kRows * kLength * kVocabulary, 0)}};
  Values& logits = feeds["logits"];
  const std::vector<int64_t> predicted = {2, 4, 0, 3, 2, 1, 0, 0, 0, 1, 1, 1};
  for (size_t i = 0; i < predicted.size(); ++i)
    logits[i * kVocabulary + static_cast<size_t>(predicted[i])] = 2;
  return feeds;
}

std::map<std::string, Values> measured(const Model& model, const Layouts& layouts) {
  return run_on_mesh(*build_evaluation(model, kFeatures, kRows, {}).graph, layouts, feeds()).outputs;
}

double mean(const std::map<std::string, Values>& outputs, const std::string& name) {
  return outputs.at("sum/" + name)[0] / outputs.at("weight/" + name)[0];
}

TEST(TokenMetrics, AreThoseOfTheTargetsThatCount) {
  const GivenLogits model({.label_smoothing = 0.1, .loss_denominator = {}});
  const auto outputs = measured(model, Layouts::single());
  const double hit = std::log(std::exp(2.0) + 4) - 2, missed = hit + 2;
  const double cost = (3 * hit + 2 * missed) / 5;
  EXPECT_NEAR(mean(outputs, "perplexity"), cost, 1e-6);
  EXPECT_NEAR(mean(outputs, "neg_log_perplexity"), -cost, 1e-6);
  EXPECT_NEAR(finish_metric("perplexity", cost), std::exp(-finish_metric("neg_log_perplexity", -cost)), 1e-9);
  EXPECT_NEAR(mean(outputs, "token_accuracy"), 3 / 5.0, 1e-6);
  EXPECT_NEAR(mean(outputs, "sequence_accuracy"), 1 / 2.0, 1e-6);
  EXPECT_NEAR(mean(outputs, "mean_label"), (2 + 4 + 3 + 1 + 2) / 5.0, 1e-6);
  EXPECT_EQ(outputs.at("sum/num_eval_tokens")[0], 5);
  EXPECT_EQ(outputs.at("maximum/max_targets_length")[0], 3);
  // With smoothing over five words, each word that is not the target contributes a fifth of 0.1 of its cost.
  EXPECT_NEAR(mean(outputs, "loss"), 0.92 * cost + 0.02 * (3 * 4 * missed + 2 * (3 * missed + hit)) / 5,
              1e-6);
}

TEST(TokenMetrics, WeightsLeaveTheLossAsItIs) {
  const auto all = measured(GivenLogits({}), Layouts::single());
  const auto scored = measured(GivenLogits({}, true), Layouts::single());
  EXPECT_EQ(scored.at("sum/loss"), all.at("sum/loss"));
  EXPECT_EQ(scored.at("sum/num_eval_tokens")[0], 4);
  EXPECT_EQ(scored.at("maximum/max_targets_length")[0], 2);
  EXPECT_NEAR(mean(scored, "mean_label"), (2 + 4 + 1 + 2) / 4.0, 1e-6);
  EXPECT_NEAR(mean(scored, "token_accuracy"), 2 / 4.0, 1e-6);
}

TEST(TokenMetrics, AreTheSameOnAnyMesh) {
  const GivenLogits model({});
  const auto one = measured(model, Layouts::single());
  const std::vector<std::pair<std::string, std::string>> meshes = {
      {"x:2", "batch:x"}, {"x:3", "length:x"}, {"x:5", "vocab:x"}, {"x:2;y:3", "batch:x;length:y"}};
  for (const auto& [mesh, layout] : meshes) {
    const auto other = measured(model, layouts(mesh, layout));
    for (const char* name :
         {"sum/mean_label", "weight/mean_label", "sum/num_eval_tokens", "maximum/max_targets_length"})
      EXPECT_EQ(other.at(name), one.at(name)) << layout << " " << name;
  }
}

TEST(TokenMetrics, OfDelimitedRowsTheInputsDoNotCount) {
  const auto model = parse_model(
      "{type: delimited_lm, d_model: 4, num_layers: 1, max_length: 6, vocab_divisor: 1, block: "
      "[DenseReluDense: {hidden_size: 4}]}");
  const std::vector<Feature> features = {{"targets", {{"length", 6}}, DType::kInt32, 9}};
  const auto outputs = run_on_mesh(*build_evaluation(*model, features, 1, {}).graph, Layouts::single(),
                                   {{"targets", {5, 6, 1, 7, 1, 0}}, {std::string(kWeightsInput), {1}}})
                           .outputs;
  EXPECT_EQ(outputs.at("weight/loss")[0], 5);
  EXPECT_EQ(outputs.at("sum/num_eval_tokens")[0], 2);
  EXPECT_EQ(mean(outputs, "mean_label"), 4);
}

TEST(TokenMetrics, ChecksOfTheDataAreMeasuredOnRequest) {
  for (const char* name : {"neg_log_perplexity", "mean_label", "num_eval_tokens", "max_targets_length"}) {
    EXPECT_THAT(token_metrics(), Contains(name));
    EXPECT_FALSE(measured_by_default(name)) << name;
  }
  EXPECT_TRUE(measured_by_default("loss") && measured_by_default("perplexity"));
  EXPECT_TRUE(greater_is_better("neg_log_perplexity"));
  EXPECT_FALSE(greater_is_better("perplexity"));
}

}  // namespace
}  // namespace mtf::testing
