// Tests the running means of the weights (train.ema_decay).
#include "trainer/optimizer/averages.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "tests/support/golden.h"
#include "tests/support/parse_model.h"
#include "tests/support/parse_optimizer.h"
#include "tests/support/run_on_mesh.h"
#include "tests/support/test_backend.h"
#include "trainer/session/evaluation_graph.h"
#include "trainer/session/step.h"

namespace mtf::testing {
namespace {

constexpr double kDecay = 0.6;
constexpr int64_t kAveragedSteps = 12;

std::unique_ptr<Model> classifier() {
  return parse_model(
      "{type: classifier, input: image, layers: [{dense: {output: {hidden: 8}, activation: relu}}, {dropout: "
      "0.3}, {dense: {output: {classes: 4}}}]}");
}

const std::vector<Feature> kImageFeatures = {{"image", Shape{{"pixels", 8}}, DType::kFloat32},
                                             {"labels", Shape{}, DType::kInt32}};

std::map<std::string, Values> images_and_labels(int64_t size) {
  std::map<std::string, Values> feeds;
  for (int64_t i = 0; i < size * 8; ++i) feeds["image"].push_back(std::sin(static_cast<double>(i)));
  for (int64_t i = 0; i < size; ++i) feeds["labels"].push_back(static_cast<double>(i * 7 % 4));
  return feeds;
}

constexpr int64_t kImagesOfBatch = 16;

/// A training step with running means, and its variables.
struct Training {
  explicit Training(const Layouts& layouts, const Precision& precision = {},
                    const std::vector<std::string>& trainable = {".*"})
      : model(classifier()) {
    TrainStepOptions options;
    options.batch_size = kImagesOfBatch;
    options.precision = precision;
    options.trainable = trainable;
    options.update = UpdateOptions{parse_optimizer("adam"), {0.05}, kAveragedSteps, kDecay};
    step = build_train_step(*model, kImageFeatures, options);
    Program program = partition(*step.graph, layouts);
    variables.emplace(*backend, program.mesh, program.variables, VariableStoreOptions{.replicate = true});
    variables->initialize(1);
    start_averages(*variables);
    executor.emplace(std::move(program), *backend, *variables,
                     ExecutorOptions{.threads = 2, .check_replicas = true});
  }

  void run(int64_t at, std::map<std::string, Values> feeds = images_and_labels(kImagesOfBatch)) {
    for (const Feature& feature : kImageFeatures) {
      const Shape shape = Shape{{"batch", kImagesOfBatch}} + feature.shape;
      executor->feed(feature.name, to_host(shape, feature.dtype, feeds.at(feature.name)).bytes.data());
    }
    for (const StepScalar& scalar : step.scalars) executor->feed_scalar(scalar.input, scalar.value(at));
    executor->run(static_cast<uint64_t>(at));
  }
  Values value(const std::string& name) const { return from_host(variables->get(name)); }
  std::vector<std::string> weights() const {
    std::vector<std::string> names;
    for (const std::string& name : variables->names()) {
      if (variables->variable(name).kind == Variable::Kind::kWeight) names.push_back(name);
    }
    return names;
  }

  std::unique_ptr<Model> model;
  TrainStep step;
  std::shared_ptr<Backend> backend = test_backend();
  std::optional<VariableStore> variables;
  std::optional<Executor> executor;
};

struct Arrangement {
  const char *mesh, *layout, *parameter_layout, *optimizer_layout;
};

Layouts layouts_of(const Arrangement& a) {
  return *a.mesh == '\0' ? Layouts::single()
                         : layouts(a.mesh, a.layout, a.parameter_layout, a.optimizer_layout);
}

const std::vector<Arrangement> kArrangements = {{"", "", "", ""},
                                                {"x:2", "batch:x", "", ""},
                                                {"y:2", "hidden:y", "", ""},
                                                {"x:2;y:2", "batch:x;hidden:y", "", ""},
                                                {"x:8", "batch:x", "", ""},
                                                {"x:2", "batch:x", "hidden:x", ""},
                                                {"x:2", "batch:x", "", "hidden:x"},
                                                {"x:2", "batch:x", "", "pixels:x;classes:x"}};

TEST(AverageRate, ForgetsTheStartFasterAsLongAsTheRunIsShort) {
  EXPECT_DOUBLE_EQ(average_rate(0.9, 0), 0.9);        // d = 1 / 10
  EXPECT_DOUBLE_EQ(average_rate(0.9, 10), 1 - 0.55);  // d = 11 / 20
  EXPECT_DOUBLE_EQ(average_rate(0.9, 80), 0.1);
  EXPECT_DOUBLE_EQ(average_rate(0.9, 1000), 1 - 0.9);
}

TEST(Averages, AreThoseOfTheWeightsOfEachStep) {
  for (const Arrangement& arrangement : kArrangements) {
    SCOPED_TRACE(fmt::format("{} {} {} {}", arrangement.mesh, arrangement.layout,
                             arrangement.parameter_layout, arrangement.optimizer_layout));
    Training training(layouts_of(arrangement));
    std::map<std::string, Values> expected;
    for (const std::string& weight : training.weights()) expected[weight] = training.value(weight);
    ASSERT_EQ(expected.size(), 4u);
    for (int64_t t = 0; t < kAveragedSteps; ++t) {
      training.run(t);
      const double d = std::min(kDecay, (1.0 + static_cast<double>(t)) / (10.0 + static_cast<double>(t)));
      for (auto& [weight, mean] : expected) {
        const Values now = training.value(weight);
        for (size_t i = 0; i < mean.size(); ++i) mean[i] = d * mean[i] + (1 - d) * now[i];
        EXPECT_LT(relative_difference(training.value(average_name(weight)), mean), 1e-6)
            << weight << " " << t;
      }
    }
  }
}

TEST(Averages, AreTheSameOnEveryLayout) {
  Training one(Layouts::single());
  for (int64_t t = 0; t < kAveragedSteps; ++t) one.run(t);
  for (const Arrangement& arrangement : kArrangements) {
    Training other(layouts_of(arrangement));
    for (int64_t t = 0; t < kAveragedSteps; ++t) other.run(t);
    for (const std::string& weight : one.weights()) {
      EXPECT_LT(relative_difference(other.value(average_name(weight)), one.value(average_name(weight))), 1e-5)
          << arrangement.layout << weight;
    }
  }
}

TEST(Averages, AStepThatIsNotFiniteChangesNothing) {
  Training training(layouts("x:2", "batch:x", "", "hidden:x"));
  for (int64_t t = 0; t < 3; ++t) training.run(t);
  std::map<std::string, Values> before;
  for (const std::string& name : training.variables->names()) before[name] = training.value(name);
  auto feeds = images_and_labels(kImagesOfBatch);
  feeds["image"][5] = std::numeric_limits<double>::quiet_NaN();
  training.run(3, feeds);
  EXPECT_EQ(training.executor->scalar("finite"), 0);
  for (const auto& [name, values] : before) EXPECT_EQ(training.value(name), values) << name;
}

TEST(Averages, AreFloat32AlsoOfWeightsInBfloat16) {
  Training training(Layouts::single(), {.master = DType::kBFloat16, .slice = DType::kBFloat16});
  const std::string weight = training.weights()[0];
  EXPECT_EQ(training.variables->variable(weight).dtype, DType::kBFloat16);
  EXPECT_EQ(training.variables->variable(average_name(weight)).dtype, DType::kFloat32);
  EXPECT_EQ(training.value(average_name(weight)), training.value(weight));
  for (int64_t t = 0; t < 3; ++t) training.run(t);
  EXPECT_NE(training.value(average_name(weight)), training.value(weight));
}

TEST(Averages, AreKeptOfWhatIsTrained) {
  const Training training(Layouts::single(), {}, {"^dense_1/"});
  EXPECT_TRUE(training.variables->contains(average_name("dense_1/kernel")));
  EXPECT_FALSE(training.variables->contains(average_name("dense/kernel")));
}

TEST(Averages, AreWhatEvaluationReads) {
  const auto model = classifier();
  const auto averaged = [](const std::string& weight) {
    return weight.starts_with("dense_1/") ? average_name(weight) : std::string();
  };
  const auto graph =
      build_evaluation(*model, kImageFeatures, kImagesOfBatch, {.precision = {}, .averaged = averaged}).graph;
  EXPECT_FALSE(graph->find_variable("dense_1/kernel"));
  ASSERT_TRUE(graph->find_variable(average_name("dense_1/kernel")));
  EXPECT_TRUE(graph->find_variable("dense/kernel"));

  const auto plain = build_evaluation(*model, kImageFeatures, kImagesOfBatch, {}).graph;
  auto feeds = images_and_labels(kImagesOfBatch);
  feeds[std::string(kWeightsInput)] = Values(kImagesOfBatch, 1);
  MeshRunOptions weights;
  for (const auto& variable : plain->variables()) {
    Values& values = weights.variables[variable->name];
    for (int64_t i = 0; i < variable->shape.size(); ++i) values.push_back(std::cos(static_cast<double>(i)));
  }
  MeshRunOptions means;
  for (const auto& [name, values] : weights.variables)
    means.variables[averaged(name).empty() ? name : averaged(name)] = values;
  for (const Layouts& layout : {Layouts::single(), layouts("x:2", "batch:x", "", "hidden:x")}) {
    const auto expected = run_on_mesh(*plain, layout, feeds, weights).outputs;
    EXPECT_EQ(run_on_mesh(*graph, layout, feeds, means).outputs, expected);
  }
}

}  // namespace
}  // namespace mtf::testing
