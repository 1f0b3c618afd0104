// Language models with experts: losses, gradients and logits of each gating against those of Mesh TensorFlow, and the
// same for every layout and number of microbatches.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "tests/support/golden.h"
#include "tests/support/parse_model.h"
#include "tests/support/parse_optimizer.h"
#include "tests/support/run_on_mesh.h"
#include "tests/support/sine_weights.h"
#include "trainer/optimizer/averages.h"
#include "trainer/session/step.h"

namespace mtf::testing {
namespace {

/// Two rows of eight tokens; weights that follow a formula.
class TinyExperts {
 public:
  explicit TinyExperts(const std::string& experts, int64_t rows = 2, const std::string& more = "")
      : rows_(rows),
        model_(parse_model(fmt::format(
            "{{type: lm, d_model: 16, num_layers: 2, max_length: 8, z_loss: 0.0001, {} block: "
            "[SelfAttention: "
            "{{num_heads: 2, key_value_size: 8}}, MoE1D: {{{}}}], layer_defaults: {{MoE1D: {{num_experts: 4, "
            "hidden_size: 32, group_size: 8, min_expert_capacity: 2, second_policy_train: all, "
            "switch_policy_train: "
            "argmax}}}}}}",
            more, experts))) {
    const Values targets = {5, 9, 3, 1, 7, 12, 1, 0, 4, 4, 17, 2, 30, 1, 0, 0};
    const Values segments = {1, 1, 1, 1, 2, 2, 2, 0, 1, 1, 1, 1, 1, 1, 0, 0};
    const Values positions = {0, 1, 2, 3, 0, 1, 2, 0, 0, 1, 2, 3, 4, 5, 0, 0};
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t i = 0; i < 8; ++i) {
        const auto at = static_cast<size_t>(row % 2 * 8 + i);
        feeds_["targets"].push_back(row < 2 || targets[at] <= 1 ? targets[at]
                                                                : std::fmod(targets[at] * (row + 3), 38) + 2);
        feeds_["targets_segmentation"].push_back(segments[at]);
        feeds_["targets_position"].push_back(positions[at]);
      }
    }
  }

  MeshRun run(const Layouts& layouts = Layouts::single(), int64_t microbatches = 1,
              const std::vector<std::string>& recompute = {}) const {
    const TrainStep step = make_step(layouts, microbatches, recompute, {});
    return run_on_mesh(*step.graph, layouts, feeds_, {.variables = sine_weights(*step.graph)});
  }

  /// The variables after so many steps with a running mean of the weights.
  std::map<std::string, Values> train(int64_t steps, const Layouts& layouts = Layouts::single(),
                                      int64_t microbatches = 1,
                                      const std::vector<std::string>& recompute = {},
                                      std::map<std::string, Values> variables = {}) const {
    UpdateOptions update{
        parse_optimizer("{type: adamw, clip_norm: 0.1, weight_decay: 0.1}"), {0.01}, 10, 0.9};
    const TrainStep step = make_step(layouts, microbatches, recompute, update);
    if (variables.empty()) variables = sine_weights(*step.graph);
    for (int64_t i = 0; i < steps; ++i) {
      std::map<std::string, Values> feeds = feeds_;
      for (const StepScalar& scalar : step.scalars) feeds[scalar.input] = {scalar.value(i)};
      variables = run_on_mesh(*step.graph, layouts, feeds, {.variables = variables}).variables;
    }
    return variables;
  }

 private:
  TrainStep make_step(const Layouts& layouts, int64_t microbatches, const std::vector<std::string>& recompute,
                      const std::optional<UpdateOptions>& update) const {
    TrainStepOptions options;
    options.update = update;
    options.batch_size = rows_;
    options.keep_prediction = !update;
    options.microbatches = microbatches;
    options.expert_parts = expert_parts(layouts);
    if (!recompute.empty()) options.recompute = recompute;
    const std::vector<Feature> features = {{"targets", {{"length", 8}}, DType::kInt32, 40},
                                           {"targets_segmentation", {{"length", 8}}, DType::kInt32, 40},
                                           {"targets_position", {{"length", 8}}, DType::kInt32, 40}};
    TrainStep step = build_train_step(*model_, features, options);
    Diagnostics diagnostics;
    check_layouts(*step.graph, layouts, diagnostics);
    diagnostics.throw_if_errors();
    return step;
  }

  int64_t rows_;
  std::unique_ptr<Model> model_;
  std::map<std::string, Values> feeds_;
};

struct PublishedExperts {
  const char* options;
  double loss, gradient_norm;
  std::array<double, 4> logits;
};

const PublishedExperts kPublished[] = {
    {"gating: top_2", 3.918756, 4.509509, {.223916, .217659, -.135544, .223903}},
    {"gating: switch", 3.922738, 4.126692, {.207799, .229725, -.114529, .224177}},
    {"gating: switch_max", 3.933220, 3.021053, {.207472, .229945, -.114112, .209051}},
    {"gating: ntlb, ntlb_top_k: 2", 3.927894, 4.382988, {.207799, .229725, -.114529, .197815}},
    {"gating: top_n", 3.919384, 4.252746, {.218929, .221657, -.128934, .224107}},
    {"gating: top_2, z_loss: 0.1, use_second_place_loss: true",
     3.933033,
     4.509485,
     {.223916, .217659, -.135544, .223903}},
    {"gating: switch, z_loss: 0.1, activation: [swish, linear]",
     3.926374,
     4.152403,
     {.205559, .231217, -.111682, .224589}},
};

class PublishedGating : public ::testing::TestWithParam<PublishedExperts> {};

TEST_P(PublishedGating, GivesThePublishedLossGradientAndLogits) {
  const PublishedExperts& expected = GetParam();
  const MeshRun run = TinyExperts(expected.options).run();
  EXPECT_NEAR(run.outputs.at("loss")[0], expected.loss, 1e-5);
  double squares = 0;
  for (const auto& [name, values] : run.outputs) {
    if (!name.starts_with("grad/")) continue;
    for (const double value : values) squares += value * value;
  }
  EXPECT_NEAR(std::sqrt(squares), expected.gradient_norm, 1e-4);
  const Values& logits = run.outputs.at("output/logits");
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(logits[128 + i], expected.logits[i], 1e-5);
  EXPECT_NEAR(logits[12 * 128 + 39], expected.logits[3], 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Gatings, PublishedGating, ::testing::ValuesIn(kPublished));

/// Options with experts that have too many tokens, or none.
constexpr const char* kGatings[] = {
    "gating: top_2, capacity_factor_train: 0.75",
    "gating: top_2, second_policy_train: random, second_threshold_train: 0.5, dropout_rate: 0.25",
    "gating: top_n, capacity_factor_train: 1, grouping: row, group_size: 4",
    "gating: switch, capacity_factor_train: 0.75, switch_policy_train: input_jitter",
    "gating: switch, switch_policy_train: sample",
    "gating: switch, switch_policy_train: input_dropout",
    "gating: switch_max, capacity_factor_train: 0.75",
    "gating: ntlb, ntlb_top_k: 3, capacity_factor_train: 0.75",
    "gating: top_k, dispatch: capacity, capacity_factor_train: 0.5",
    "gating: top_k, dispatch: capacity, drop: probability, capacity_factor_train: 0.75, score: sigmoid",
    "gating: top_k, dispatch: capacity, expert_groups: 2, experts_per_token: 2, router_z: 0.01, "
    "selection_bias: true",
    "gating: switch, dispatch: dropless",
    "gating: top_k, dropout_rate: 0.25, activation: [swish, linear]",
    "gating: top_2, dispatch: dropless, second_policy_train: threshold, second_threshold_train: 0.5",
    "gating: top_k, experts_per_token: 3, router_z: 0.01, balance: {coef: 0.1, scope: batch}",
    "gating: top_k, score: sigmoid, scale: 2.5, selection_bias: true, activation: [swish, linear]",
    "gating: top_k, weight_on: input, normalize: false, shared_experts: 1, shared_gate: true",
};

class EveryGating : public ::testing::TestWithParam<const char*> {};

TEST_P(EveryGating, GivesTheSameOnEveryLayoutAndForAnyNumberOfMicrobatches) {
  const TinyExperts experts(GetParam(), 8);
  const MeshRun one = experts.run();
  ASSERT_TRUE(one.outputs.contains("loss/balance"));
  const auto compare = [&](const MeshRun& run) {
    for (const auto& [name, values] : one.outputs)
      expect_close(name, run.outputs.at(name), values, 2e-5, 2e-6);
  };
  const auto compare_microbatches = [&](MeshRun run) {
    for (const char* extent : {"report/router/max_logit", "report/router/min_gap"})
      if (one.outputs.contains(extent)) run.outputs[extent] = one.outputs.at(extent);
    compare(run);
  };
  for (const auto& [mesh, layout] :
       {std::pair("x:2", "batch:x"), std::pair("x:2", "batch:x;experts:x"),
        std::pair("x:4", "batch:x;experts:x"), std::pair("y:2", "experts:y"), std::pair("y:4", "experts:y"),
        std::pair("y:4", "expert_hidden:y"), std::pair("x:2;y:2", "batch:x;experts:y"),
        std::pair("x:2;y:2", "batch:x;experts:x;expert_hidden:y"),
        std::pair("x:2;y:2", "batch:x;length:y;experts:y"), std::pair("x:2;y:2", "batch:x;d_model:y"),
        std::pair("x:8", "batch:x"),
        std::pair("x:4;y:2", "batch:x;experts:x;expert_hidden:y;heads:y;vocab:y")}) {
    SCOPED_TRACE(fmt::format("{} on {}", layout, mesh));
    compare(experts.run(layouts(mesh, layout)));
  }
  for (const int64_t microbatches : {2, 4}) {
    SCOPED_TRACE(fmt::format("{} microbatches", microbatches));
    if (std::string_view(GetParam()).find("scope: batch") != std::string_view::npos) continue;
    compare_microbatches(experts.run(Layouts::single(), microbatches));
    compare_microbatches(experts.run(layouts("x:2;y:2", "batch:x;experts:x"), microbatches));
  }
  compare(experts.run(layouts("x:2", "batch:x;experts:x"), 1, {"MoE1D"}));
  compare(experts.run(layouts("x:2;y:2", "batch:x;experts:y", "d_model:x")));
  compare(experts.run(layouts("x:4", "batch:x", "experts:x")));
}

INSTANTIATE_TEST_SUITE_P(Gatings, EveryGating, ::testing::ValuesIn(kGatings));

TEST(SelectionBias, MovesByTheCountsOfTheWholeStepAlone) {
  const TinyExperts experts("gating: top_k, score: sigmoid, selection_bias: true", 8);
  constexpr const char* kBias = "transformer/block_000/layer_001/MoE1D/top_k_gating/selection_bias";
  const auto after = experts.train(3);
  ASSERT_TRUE(after.contains(kBias));
  const Values& bias = after.at(kBias);
  EXPECT_NE(bias, Values(4, 0));
  for (const double value : bias)
    EXPECT_NEAR(value * 1000, std::round(value * 1000), 1e-3) << "only the counts move it";
  EXPECT_FALSE(after.contains(average_name(kBias)));
  for (const auto& [mesh, layout] :
       {std::pair("x:1", ""), std::pair("x:2", "batch:x"), std::pair("x:4", "batch:x;experts:x"),
        std::pair("x:2;y:2", "batch:x;length:y"), std::pair("x:2;y:2", "batch:x;experts:y")}) {
    SCOPED_TRACE(fmt::format("{} on {}", layout, mesh));
    EXPECT_EQ(experts.train(3, layouts(mesh, layout)).at(kBias), bias);
    EXPECT_EQ(experts.train(3, layouts(mesh, layout), 2, {"MoE1D"}).at(kBias), bias);
    const auto begun = experts.train(1, layouts(mesh, layout));
    EXPECT_EQ(experts.train(2, layouts("x:2", "batch:x;experts:x"), 1, {}, begun).at(kBias), bias)
        << "on another mesh from the second step on";
  }
  auto broken = experts.train(1);
  const Values before = broken.at(kBias);
  broken.at("transformer/embedding")[3] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(experts.train(1, Layouts::single(), 1, {}, broken).at(kBias), before) << "a step that is skipped";
}

TEST(DroplessExperts, AreThoseOfACapacityThatDropsNothing) {
  for (const char* gating :
       {"gating: switch", "gating: top_2", "gating: top_n", "gating: top_k, experts_per_token: 3",
        "gating: top_k, score: sigmoid, activation: [gelu, linear]"}) {
    SCOPED_TRACE(gating);
    const MeshRun capacity =
        TinyExperts(fmt::format("{}, dispatch: capacity, capacity_factor_train: 4", gating), 4).run();
    ASSERT_EQ(capacity.outputs.at("report/experts/dropped")[0], 0);
    const TinyExperts dropless(fmt::format("{}, dispatch: dropless", gating), 4);
    for (const Layouts& split :
         {Layouts::single(), layouts("x:4", "batch:x;experts:x"), layouts("x:2;y:2", "batch:x;experts:y")}) {
      const MeshRun run = dropless.run(split);
      for (const auto& [name, values] : capacity.outputs) {
        if (name != "report/experts/fill") expect_close(name, run.outputs.at(name), values, 1e-5, 1e-6);
      }
    }
  }
}

TEST(DroplessExperts, DropNothingInAnyNumberOfMicrobatches) {
  const TinyExperts experts("gating: top_k, experts_per_token: 3, dispatch: dropless", 6);
  for (const int64_t microbatches : {1, 3, 6}) {
    const MeshRun run = experts.run(Layouts::single(), microbatches);
    EXPECT_EQ(run.outputs.at("report/experts/dropped")[0], 0) << microbatches;
  }
}

/// All tokens go to the first experts: with layouts some positions have none.
TEST(DroplessExperts, MayHaveNoTokens) {
  const TinyExperts experts("gating: top_k, experts_per_token: 1, num_experts: 8", 2);
  const MeshRun one = experts.run();
  ASSERT_GT(one.outputs.at("report/experts/unused")[0], 0);
  for (const char* layout : {"batch:x;experts:x", "experts:x", "batch:x", "length:x;experts:x"}) {
    SCOPED_TRACE(layout);
    const MeshRun run = experts.run(layouts("x:2", layout));
    for (const auto& [name, values] : one.outputs)
      expect_close(name, run.outputs.at(name), values, 1e-5, 1e-6);
  }
}

}  // namespace
}  // namespace mtf::testing
