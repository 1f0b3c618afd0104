// Classifiers, taggers, spans and masked language models over a Transformer's tokens: padding changes nothing, and no layout and no number of
// microbatches changes a step or an evaluation.
#include "tests/trainer/text_heads.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "tests/support/failure.h"
#include "tests/support/parse_optimizer.h"
#include "trainer/session/evaluation_graph.h"
#include "trainer/session/step.h"

namespace mtf::testing {
namespace {

class TextHeads : public ::testing::TestWithParam<Head> {
 protected:
  MeshRun train(const Layouts& layouts, int64_t microbatches) const {
    TrainStepOptions options;
    options.batch_size = kHeadRows;
    options.microbatches = microbatches;
    options.update = UpdateOptions{parse_optimizer("adam"), {0.01}, 10, {}};
    const TrainStep step =
        build_train_step(*text_head_model(GetParam()), text_head_features(GetParam()), options);
    std::map<std::string, Values> inputs = text_head_feeds(GetParam());
    for (const StepScalar& scalar : step.scalars) inputs[scalar.input] = {scalar.value(0)};
    return run_on_mesh(*step.graph, layouts, inputs);
  }

  MeshRun evaluate(const Layouts& layouts, int padding = 0) const {
    EvaluationGraphOptions options;
    options.keep_predictions = true;
    const auto graph =
        build_evaluation(*text_head_model(GetParam()), text_head_features(GetParam()), kHeadRows, options)
            .graph;
    std::map<std::string, Values> inputs = text_head_feeds(GetParam(), padding);
    inputs[std::string(kWeightsInput)] = Values(kHeadRows, 1);
    return run_on_mesh(*graph, layouts, inputs);
  }
};

TEST_P(TextHeads, ATrainingStepIsTheSameOnEveryLayout) {
  const MeshRun expected = train(Layouts::single(), 1);
  EXPECT_GT(expected.outputs.at("loss")[0], 0);
  EXPECT_GT(expected.outputs.at("grad_norm")[0], 0);
  for (const Layouts& layouts : text_head_meshes()) {
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
  for (const Layouts& layouts : text_head_meshes()) {
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

TEST(TokenTypes, ATableOfOneTypeIsForTextsWithoutPairs) {
  const Head head = text_heads().front();
  std::vector<Feature> features = text_head_features(head);
  TrainStepOptions options;
  options.batch_size = kHeadRows;
  const auto build = [&] {
    const auto model =
        parse_model(fmt::format("{{{}, layers: [embedding: {{output: {{d_model: 8}}}}, token_types: 1, {}]}}",
                                head.model, head.layers));
    build_train_step(*model, features, options);
  };
  EXPECT_THAT(failure(build, ErrorKind::kConfig),
              ::testing::HasSubstr("token_types: the data have pairs of texts"));
  std::ranges::find(features, "inputs_type", &Feature::name)->one_text = true;
  EXPECT_NO_THROW(build());
}

TEST(MaskedLm, CapsItsLogits) {
  const auto logits = [](const std::string& options) {
    const Head head{"", "type: masked_lm" + options, "layer_norm", text_heads().back().targets};
    TrainStepOptions training;
    training.batch_size = kHeadRows;
    training.keep_prediction = true;
    const TrainStep step = build_train_step(*text_head_model(head), text_head_features(head), training);
    return run_on_mesh(*step.graph, Layouts::single(), text_head_feeds(head)).outputs.at("output/logits");
  };
  Values expected = logits("");
  for (double& logit : expected) logit = 0.2 * std::tanh(logit / 0.2);
  expect_close("logits", logits(", logit_soft_cap: 0.2"), expected, 1e-6);
}

TEST(MaskedLm, ComputesItsLossInParts) {
  const Head head = text_heads().back();
  const auto step_of = [&](int64_t chunks, const Layouts& layouts) {
    TrainStepOptions training;
    training.batch_size = kHeadRows;
    training.loss_chunks = chunks;
    const TrainStep step = build_train_step(*text_head_model(head), text_head_features(head), training);
    return run_on_mesh(*step.graph, layouts, text_head_feeds(head)).outputs;
  };
  const auto expected = step_of(1, Layouts::single());
  for (const Layouts& of : text_head_meshes()) {
    const auto outputs = step_of(kHeadPredictions, of);
    ASSERT_EQ(outputs.size(), expected.size());
    for (const auto& [name, values] : expected) expect_close(name, outputs.at(name), values, 1e-5);
  }
}

INSTANTIATE_TEST_SUITE_P(Heads, TextHeads, ::testing::ValuesIn(text_heads()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace mtf::testing
