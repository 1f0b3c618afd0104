// Losses, reports and running statistics of layers: what they say, and that no layout and no number of microbatches
// changes it.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "engine/ops/binary.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"
#include "layers/registry.h"
#include "tests/support/golden.h"
#include "tests/support/parse_model.h"
#include "tests/support/parse_optimizer.h"
#include "tests/support/run_on_mesh.h"
#include "trainer/session/evaluation_graph.h"
#include "trainer/session/step.h"

namespace mtf::testing {
namespace {

struct RunningMeanOptions {};
void describe(config::Visitor&, RunningMeanOptions&) {}

/// y = x - the running mean of x over the batch, which training moves by a quarter of the way.
class RunningMeanLayer final : public Layer {
 public:
  using Options = RunningMeanOptions;
  explicit RunningMeanLayer(const Options&) {}
  LayerTensor operator()(Context& context, const LayerTensor& x) const override {
    const Shape shape = x.shape() - Shape{context.batch()};
    const Tensor mean = context.statistic("mean", shape, Initializer::ones());
    context.update_statistic("mean", reduce_mean(x, shape), [](const Tensor& before, const Tensor& value) {
      return add(scalar_multiply(before, 0.75), scalar_multiply(value, 0.25));
    });
    return subtract(x, mean, x.shape());
  }
};
const LayerRegistration<RunningMeanLayer> running_mean("test_running_mean", "y = x - running mean");

const std::vector<Feature> kRowFeatures = {{"x", {{"io", 4}}, DType::kFloat32},
                                           {"y", {{"out", 2}}, DType::kFloat32}};

std::unique_ptr<Model> model() {
  return parse_model(
      "{type: regression, layers: [dense: {output: {hidden: 8}}, test_running_mean, "
      "activity_regularization: {l1: 0.5, l2: 0.25}, report: hidden, dense: {output: {out: 2}}]}");
}

struct Result {
  std::map<std::string, Values> outputs, variables;
};

/// Three steps with a batch of 8.
Result train(const Model& model, TrainStepOptions options, const Layouts& layouts) {
  options.batch_size = 8;
  options.update = UpdateOptions{parse_optimizer("sgd"), {0.1}, 10, {}};
  const TrainStep step = build_train_step(model, kRowFeatures, options);
  std::map<std::string, Values> feeds;
  for (int64_t i = 0; i < 8 * 4; ++i) feeds["x"].push_back(static_cast<double>((i * 7) % 11) / 5 - 1);
  for (int64_t i = 0; i < 8 * 2; ++i) feeds["y"].push_back(static_cast<double>((i * 5) % 7) / 7);
  MeshRunOptions run;
  Result result;
  for (int64_t i = 0; i < 3; ++i) {
    for (const StepScalar& scalar : step.scalars) feeds[scalar.input] = {scalar.value(i)};
    const MeshRun after = run_on_mesh(*step.graph, layouts, feeds, run);
    run.variables = after.variables;
    result = {after.outputs, after.variables};
  }
  return result;
}

TEST(LayerTerms, AreAddedToTheLossAndNamed) {
  TrainStepOptions options;
  const Result plain = train(*model(), options, Layouts::single());
  ASSERT_TRUE(plain.outputs.contains("loss/activity"));
  ASSERT_TRUE(plain.outputs.contains("report/hidden/mean"));
  options.loss_weights = {{"activity", 0.0}};
  const Result without = train(*model(), options, Layouts::single());
  EXPECT_LT(plain.outputs.at("loss/activity")[0], without.outputs.at("loss/activity")[0]);
  EXPECT_LT(without.outputs.at("loss")[0], plain.outputs.at("loss")[0]);
}

TEST(LayerTerms, WeightsOfUnknownLossesAreErrors) {
  TrainStepOptions options;
  options.loss_weights = {{"activty", 2.0}};
  try {
    train(*model(), options, Layouts::single());
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::AllOf(::testing::HasSubstr("no layer adds a loss `activty`"),
                                               ::testing::HasSubstr("did you mean `activity`?")));
  }
}

TEST(LayerTerms, AreTheSameOnEveryLayoutAndForAnyNumberOfMicrobatches) {
  const Result expected = train(*model(), {}, Layouts::single());
  ASSERT_TRUE(expected.variables.contains("test_running_mean/mean"));
  EXPECT_NE(expected.variables.at("test_running_mean/mean")[0], 1) << "it moves";
  for (const auto& [mesh, layout] : {std::pair("a:1", ""), std::pair("a:2", "batch:a"),
                                     std::pair("a:2", "hidden:a"), std::pair("a:2;b:2", "batch:a;hidden:b"),
                                     std::pair("a:8", "batch:a"), std::pair("a:8", "hidden:a")}) {
    for (const int64_t microbatches : {1, 2, 4}) {
      if (std::string_view(mesh) == "a:8" && std::string_view(layout) == "batch:a" && microbatches > 1)
        continue;  // a microbatch has fewer examples than the mesh positions
      for (const bool recomputed : {false, true}) {
        SCOPED_TRACE(fmt::format("{} {} {} microbatches {}", mesh, layout, microbatches, recomputed));
        TrainStepOptions options;
        options.microbatches = microbatches;
        if (recomputed) {
          options.recompute =
              std::vector<std::string>{"test_running_mean", "activity_regularization", "report"};
        }
        const Result result = train(*model(), options, layouts(mesh, layout));
        for (const auto& [name, values] : expected.outputs)
          expect_close(name, result.outputs.at(name), values, 1e-5);
        for (const auto& [name, values] : expected.variables)
          expect_close(name, result.variables.at(name), values, 1e-5);
      }
    }
  }
}

TEST(LayerTerms, EvaluationLeavesStatisticsAndAddsNoLoss) {
  const auto graph = build_evaluation(*model(), kRowFeatures, 8, {}).graph;
  for (const auto& [name, tensor] : graph->outputs()) {
    EXPECT_FALSE(name.starts_with("loss/") || name.starts_with("report/")) << name;
  }
  EXPECT_NE(graph->find_variable("test_running_mean/mean"), nullptr);
}

TEST(LayerTerms, StepsNameTheLayersWhoseStatisticsMicrobatchesChange) {
  const auto normalized = parse_model(
      "{type: regression, layers: [dense: {output: {hidden: 8}}, batch_norm: {name: norm}, "
      "test_running_mean, "
      "residual: {name: branch, layers: [batch_norm]}, dense: {output: {out: 2}}]}");
  TrainStepOptions options;
  options.batch_size = 8;
  const TrainStep whole = build_train_step(*normalized, kRowFeatures, options);
  EXPECT_THAT(whole.batch_statistics, ::testing::ElementsAre("norm", "branch/batch_norm"));
  EXPECT_THAT(whole.notes, ::testing::IsEmpty());
  options.microbatches = 2;
  EXPECT_THAT(build_train_step(*normalized, kRowFeatures, options).notes,
              ::testing::ElementsAre(
                  "the batch statistics of norm and 1 more layer are those of a microbatch: of 4 examples"));
  EXPECT_THAT(build_train_step(*model(), kRowFeatures, options).notes, ::testing::IsEmpty());
}

TEST(LayerTerms, StatisticsThatAreNotTrainedKeepTheirValues) {
  TrainStepOptions by_pattern, by_rule;
  by_pattern.trainable = {"dense"};
  by_rule.rules = {OptimizerRule{{"mean$"}, {}, {}, {}, true}};
  for (TrainStepOptions options : {by_pattern, by_rule}) {
    for (const int64_t microbatches : {1, 2}) {
      options.microbatches = microbatches;
      const Result result = train(*model(), options, Layouts::single());
      EXPECT_EQ(result.variables.at("test_running_mean/mean"), Values(8, 1.0));
    }
  }
}

TEST(LayerTerms, BatchNormNormalisesByStatisticsThatAreNotTrained) {
  const auto build = [](std::string_view norm) {
    return parse_model(
        fmt::format("{{type: regression, layers: [dense: {{output: {{hidden: 8}}}}, {} dense: {{output: "
                    "{{out: 2}}}}]}}",
                    norm));
  };
  const auto normalized = build("batch_norm: {name: norm},"), plain = build("");
  TrainStepOptions options;
  options.rules = {OptimizerRule{{"^norm/(mean|variance)$"}, {}, {}, {}, true}};
  options.batch_size = 8;
  const TrainStep step = build_train_step(*normalized, kRowFeatures, options);
  EXPECT_THAT(step.batch_statistics, ::testing::IsEmpty());
  EXPECT_THAT(step.notes,
              ::testing::ElementsAre("these running statistics are not trained and keep their values: "
                                     "norm/mean, norm/variance"));

  const Result whole = train(*normalized, options, Layouts::single());
  EXPECT_EQ(whole.variables.at("norm/mean"), Values(8, 0.0));
  EXPECT_EQ(whole.variables.at("norm/variance"), Values(8, 1.0));
  EXPECT_NE(whole.variables.at("norm/scale"), Values(8, 1.0)) << "only the statistics are frozen";
  for (const int64_t microbatches : {1, 4}) {
    options.microbatches = microbatches;
    for (const Layouts& layout : {Layouts::single(), layouts("a:2", "hidden:a"), layouts("a:2", "batch:a")}) {
      const Result result = train(*normalized, options, layout);
      for (const auto& [name, values] : whole.outputs)
        expect_close(name, result.outputs.at(name), values, 1e-5);
      for (const auto& [name, values] : whole.variables)
        expect_close(name, result.variables.at(name), values, 1e-5);
    }
  }

  TrainStepOptions listed;
  listed.trainable = {"kernel$", "scale$"};
  EXPECT_THAT(build_train_step(*normalized, kRowFeatures, listed).batch_statistics,
              ::testing::ElementsAre("norm"))
      << "statistics move with the scale";

  // With mean 0 and variance 1 the layer changes nothing but by epsilon.
  TrainStepOptions of_dense;
  of_dense.trainable = {"dense"};
  const Result kept = train(*normalized, of_dense, Layouts::single()),
               without = train(*plain, of_dense, Layouts::single());
  for (const auto& [name, values] : without.variables)
    expect_close(name, kept.variables.at(name), values, 1e-4);
}

TEST(LayerTerms, ExamplesWithAnotherNameAreExamplesStill) {
  const auto build = [](std::string_view rename, std::string_view back) {
    return parse_model(
        fmt::format("{{type: regression, layers: [dense: {{output: {{hidden: 8}}}}, {} dropout: 0.5, "
                    "group_norm: {{groups: 2}}, "
                    "residual: {{drop: 0.5, layers: [dense: {{output: {{hidden: 8}}}}]}}, {} dense: "
                    "{{output: {{out: 2}}}}]}}",
                    rename, back));
  };
  const auto plain = build("", "");
  const auto renamed =
      build("rename: {from: batch, to: whole_batch},", "rename: {from: whole_batch, to: batch},");
  for (const int64_t microbatches : {1, 2, 4}) {
    SCOPED_TRACE(microbatches);
    TrainStepOptions options;
    options.microbatches = microbatches;
    const Result expected = train(*plain, options, Layouts::single());
    for (const Result& result :
         {train(*renamed, options, Layouts::single()), train(*renamed, options, layouts("a:2", "batch:a"))}) {
      for (const auto& [name, values] : expected.outputs)
        expect_close(name, result.outputs.at(name), values, 1e-5);
      for (const auto& [name, values] : expected.variables)
        expect_close(name, result.variables.at(name), values, 1e-5);
    }
  }
}

}  // namespace
}  // namespace mtf::testing
