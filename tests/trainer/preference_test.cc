// Direct preference optimisation: loss and metrics are those of the formulas, and neither layouts nor microbatches nor
// processes change the result.
#include "models/preference.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <array>
#include <cmath>
#include <utility>

#include "engine/config/load.h"
#include "tests/support/failure.h"
#include "tests/support/golden.h"
#include "tests/support/parse_model.h"
#include "tests/support/parse_optimizer.h"
#include "tests/support/run_on_mesh.h"
#include "tests/trainer/teacher_testing.h"
#include "tests/trainer/text_heads.h"
#include "trainer/session/evaluation_graph.h"
#include "trainer/session/step.h"

namespace mtf::testing {
namespace {

constexpr int64_t kAnswerPairs = 8, kAnswersLength = 16, kAnswersVocabulary = 21;

std::string preferring_model(int64_t width, double dropout = 0) {
  return fmt::format(
      "{{type: lm, d_model: {0}, max_length: 16, vocab_divisor: 8, num_layers: 2, dropout: {1}, "
      "layer_defaults: "
      "{{SelfAttention: {{num_heads: 8, key_value_size: 2}}, DenseReluDense: {{hidden_size: {0}}}}}, block: "
      "[SelfAttention, DenseReluDense]}}",
      width, dropout);
}

std::unique_ptr<Preference> preference(const PreferenceOptions& options, double dropout = 0) {
  return std::make_unique<Preference>(parse_model(preferring_model(8, dropout)),
                                      parse_model(preferring_model(16, 0.5)), options, Mark{});
}

PreferenceOptions preference_options(PreferenceLoss loss, double beta, double label_smoothing = 0) {
  PreferenceOptions options;
  options.loss = loss;
  options.beta = beta;
  options.label_smoothing = label_smoothing;
  return options;
}

/// Rows of two texts with a common prompt, which has no loss, then padding.
std::pair<std::vector<Feature>, std::map<std::string, Values>> pairs_of_answers() {
  std::vector<Feature> features{{"targets", {{"length", kAnswersLength}}, DType::kInt32, kAnswersVocabulary}};
  for (const char* extra : {"targets_segmentation", "targets_position"})
    features.push_back({extra, {{"length", kAnswersLength}}, DType::kInt32, 0});
  std::map<std::string, Values> feeds;
  for (int64_t row = 0; row < kAnswerPairs; ++row) {
    const int64_t prompt = 1 + row % 3, sizes[] = {prompt + 2 + row % 4, prompt + 1 + row % 2};
    for (int segment = 1; segment <= 2; ++segment) {
      for (int64_t i = 0; i < sizes[segment - 1]; ++i) {
        const int64_t id =
            1 + (i < prompt ? i * 7 + row * 5 : i * 3 + row * 11 + segment) % (kAnswersVocabulary - 1);
        feeds["targets"].push_back(static_cast<double>(i < prompt ? -id : id));
        feeds["targets_segmentation"].push_back(segment);
        feeds["targets_position"].push_back(static_cast<double>(i));
      }
    }
    for (const Feature& feature : features)
      feeds[feature.name].resize(static_cast<size_t>((row + 1) * kAnswersLength));
  }
  return {features, feeds};
}

std::map<std::string, Values> preference_step(const Model& model, const std::string& prefix = "") {
  TrainStepOptions options;
  options.batch_size = kAnswerPairs;
  options.keep_prediction = true;
  const auto [features, feeds] = pairs_of_answers();
  const TrainStep built = build_train_step(model, features, options);
  return run_on_mesh(*built.graph, Layouts::single(), feeds,
                     {.variables = teacher_weights(*built.graph, prefix)})
      .outputs;
}

/// [pairs]: the log probability of the answers of a segment, and the number of their tokens.
std::array<Values, 2> log_probabilities(const Values& logits, int segment) {
  const auto feeds = pairs_of_answers().second;
  const Values &targets = feeds.at("targets"), &segments = feeds.at("targets_segmentation");
  const size_t width = logits.size() / targets.size();
  std::array<Values, 2> result{Values(kAnswerPairs), Values(kAnswerPairs)};
  for (size_t i = 0; i < targets.size(); ++i) {
    if (targets[i] <= 0 || segments[i] != segment) continue;
    double z = 0;
    for (size_t c = 0; c < width; ++c) z += std::exp(logits[i * width + c]);
    result[0][i / kAnswersLength] += logits[i * width + static_cast<size_t>(targets[i])] - std::log(z);
    result[1][i / kAnswersLength] += 1;
  }
  return result;
}

TEST(Preference, LossAndMetricsAreThoseOfTheFormulas) {
  const Values reference =
      preference_step(*parse_model(preferring_model(16)), "teacher/").at("output/logits");
  for (const auto& [options, formula] :
       {std::pair(
            preference_options(PreferenceLoss::kSigmoid, 0.7),
            +[](double margin) { return std::log1p(std::exp(-0.7 * margin)); }),
        std::pair(
            preference_options(PreferenceLoss::kSigmoid, 0.5, 0.2),
            +[](double margin) {
              return 0.8 * std::log1p(std::exp(-0.5 * margin)) + 0.2 * std::log1p(std::exp(0.5 * margin));
            }),
        std::pair(
            preference_options(PreferenceLoss::kHinge, 0.4),
            +[](double margin) { return std::max(0.0, 1 - 0.4 * margin); }),
        std::pair(
            preference_options(PreferenceLoss::kIpo, 0.2),
            +[](double margin) { return std::pow(margin - 2.5, 2); })}) {
    const auto outputs = preference_step(*preference(options));
    double loss = 0, right = 0, margins = 0, chosen_rewards = 0;
    std::array<std::array<Values, 2>, 4> of{};
    for (const int segment : {1, 2}) {
      of[2 * segment - 2] = log_probabilities(outputs.at("output/logits"), segment);
      of[2 * segment - 1] = log_probabilities(reference, segment);
    }
    for (int64_t pair = 0; pair < kAnswerPairs; ++pair) {
      const auto score = [&](int which) {
        const double sum = of[which][0][pair];
        return options.loss == PreferenceLoss::kIpo ? sum / of[which][1][pair] : sum;
      };
      const double gained = score(0) - score(1), margin = gained - (score(2) - score(3));
      loss += formula(margin) / kAnswerPairs;
      right += margin > 0 ? 1.0 / kAnswerPairs : 0;
      margins += options.beta * margin / kAnswerPairs;
      chosen_rewards += options.beta * gained / kAnswerPairs;
    }
    EXPECT_NEAR(outputs.at("loss")[0], loss, 1e-5);
    EXPECT_NEAR(outputs.at("report/rewards/accuracies")[0], right, 1e-6);
    EXPECT_NEAR(outputs.at("report/rewards/margins")[0], margins, 1e-5);
    EXPECT_NEAR(outputs.at("report/rewards/chosen")[0], chosen_rewards, 1e-5);
    EXPECT_NEAR(outputs.at("report/rewards/chosen")[0] - outputs.at("report/rewards/rejected")[0], margins,
                1e-5);
  }
}

TEST(Preference, AnEvaluationComparesWithTheReferenceModel) {
  const PreferenceOptions options = preference_options(PreferenceLoss::kSigmoid, 0.7);
  const auto trained = preference_step(*preference(options));
  auto [features, feeds] = pairs_of_answers();
  feeds[std::string(kWeightsInput)] = Values(kAnswerPairs, 1);
  const auto graph = build_evaluation(*preference(options, 0.3), features, kAnswerPairs, {}).graph;
  const auto outputs =
      run_on_mesh(*graph, Layouts::single(), feeds, {.variables = teacher_weights(*graph)}).outputs;
  EXPECT_EQ(outputs.at("weight/loss")[0], kAnswerPairs);
  EXPECT_NEAR(outputs.at("sum/loss")[0] / kAnswerPairs, trained.at("loss")[0], 1e-5);
  for (const char* name : {"accuracies", "margins", "chosen", "rejected"}) {
    EXPECT_NEAR(outputs.at(fmt::format("sum/rewards/{}", name))[0] / kAnswerPairs,
                trained.at(fmt::format("report/rewards/{}", name))[0], 1e-5);
  }
}

/// Three steps of Adam.
std::map<std::string, Values> train_preference(TrainStepOptions options, const Layouts& layouts,
                                               int processes = 1) {
  options.batch_size = kAnswerPairs;
  options.update = UpdateOptions{parse_optimizer("{type: adam, epsilon: 1e-3}"), {0.01}, 10, {}};
  auto [features, feeds] = pairs_of_answers();
  const TrainStep step = build_train_step(*preference(preference_options(PreferenceLoss::kSigmoid, 0.5), 0.1),
                                          features, options);
  return run_taught_steps(step, layouts, std::move(feeds), processes);
}

TEST(Preference, IsTheSameOnEveryLayout) {
  const auto expected = train_preference({}, Layouts::single());
  const std::vector<std::array<std::string, 3>> all = {
      {"x:2", "batch:x", ""},
      {"y:2", "heads:y;d_ff:y;vocab:y", ""},
      {"x:2;y:2", "batch:x;heads:y;d_ff:y;vocab:y", ""},
      {"x:2", "length:x", ""},
      {"x:2;y:2", "batch:x;length:y", "d_model:x"},
      {"x:8", "batch:x", "d_model:x"},
  };
  for (const auto& [mesh, layout, parameters] : all) {
    for (const int64_t microbatches : {1, 2}) {
      if (mesh == "x:8" && microbatches > 1) continue;
      SCOPED_TRACE(fmt::format("{} {} {} {}", mesh, layout, parameters, microbatches));
      TrainStepOptions options;
      options.microbatches = microbatches;
      const auto actual = train_preference(options, layouts(mesh, layout, parameters));
      for (const auto& [name, values] : expected) expect_close(name, actual.at(name), values, 2e-5, 2e-6);
    }
  }
  const Layouts split = layouts("x:2;y:2", "batch:x;heads:y;d_ff:y;vocab:y", "");
  const auto one = train_preference({}, split), two = train_preference({}, split, 2);
  for (const auto& [name, values] : one) EXPECT_EQ(two.at(name), values) << name;
}

TEST(Preference, ConservativeLabelsAreThoseOfTheSigmoid) {
  const auto refusal = [](const std::string& yaml) {
    return failure([&] {
      Diagnostics diagnostics;
      config::parse<PreferenceOptions>(config::parse_yaml(yaml, "run.yaml", diagnostics), diagnostics,
                                       "preference");
      diagnostics.throw_if_errors();
    });
  };
  EXPECT_EQ(refusal("{loss: sigmoid, label_smoothing: 0.5}"), "no error");
  EXPECT_THAT(refusal("{loss: ipo, label_smoothing: 0.1}"),
              ::testing::HasSubstr("is that of `loss: sigmoid`"));
  EXPECT_THAT(refusal("{label_smoothing: 0.6}"), ::testing::HasSubstr("from 0 to 0.5"));
  EXPECT_THAT(refusal("{beta: 0}"), ::testing::HasSubstr("`preference.beta` must be greater than 0"));
}

}  // namespace
}  // namespace mtf::testing
