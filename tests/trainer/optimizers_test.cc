#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>

#include "engine/ops/binary.h"
#include "engine/ops/reduce.h"
#include "tests/support/golden.h"
#include "tests/trainer/update_run.h"

namespace mtf::testing {
namespace {

/// Returns step k of a tensor [steps, ...].
Values part(const GoldenTensor& steps, int64_t k) {
  const int64_t size = static_cast<int64_t>(steps.values.size()) / steps.shape[0].size;
  return Values(steps.values.begin() + k * size, steps.values.begin() + (k + 1) * size);
}

void expect_golden(const std::string& name, const UpdateOptions& options, const Layouts& layouts) {
  const GoldenCase golden(MTF_SOURCE_DIR "/tests/golden/07_" + name);
  std::map<std::string, GoldenTensor> weights;
  for (const std::string& weight : golden.names("weight/")) weights[weight] = golden.at("weight/" + weight);
  UpdateRun run(weights, options);
  const int64_t steps = golden.at("step_weight/w2d").shape[0].size;
  for (int64_t k = 0; k < steps; ++k) {
    std::map<std::string, Values> gradients;
    for (const auto& [weight, tensor] : weights) gradients[weight] = part(golden.at("grads/" + weight), k);
    run.step(k, gradients, layouts);
    for (const auto& [weight, tensor] : weights) {
      expect_close(fmt::format("{} {} after step {}", name, weight, k + 1), run.variables().at(weight),
                   part(golden.at("step_weight/" + weight), k), 1e-5, 1e-9);
    }
  }
  for (const std::string& slot : golden.names("final_slot/")) {
    ASSERT_TRUE(run.variables().contains(slot)) << slot;
    expect_close(name + " " + slot, run.variables().at(slot), golden.at("final_slot/" + slot).values, 1e-5,
                 1e-9);
  }
}

TEST(Optimizers, FollowTheRecordedRunsOnEveryLayout) {
  const std::vector<std::tuple<std::string, std::string, std::string>> cases = {
      {"sgd", "sgd", "0.1"},
      {"momentum", "momentum", "0.1"},
      {"adam_weight_decay", "{type: adam_weight_decay, weight_decay: 0.01, no_decay: [layer_norm]}", "0.01"},
      {"adafactor_default", "{type: adafactor, min_dim_size_to_factor: 6}", ""},
      {"adafactor_unfactored_128", "adafactor", ""},
      {"adafactor_explicit_lr", "{type: adafactor, min_dim_size_to_factor: 6}", "0.05"},
      {"adafactor_clip_half", "{type: adafactor, min_dim_size_to_factor: 6, clipping_threshold: 0.5}", ""},
      {"adafactor_no_clip", "{type: adafactor, min_dim_size_to_factor: 6, clipping_threshold: 0}", ""},
      {"adafactor_momentum", "{type: adafactor, min_dim_size_to_factor: 6, beta1: 0.9}", ""},
      {"adafactor_no_param_scale",
       "{type: adafactor, min_dim_size_to_factor: 6, multiply_by_parameter_scale: false}", ""},
      {"adafactor_not_factored", "{type: adafactor, factored: false}", "0.1"},
      {"adafactor_adam_decay",
       "{type: adafactor, min_dim_size_to_factor: 6, decay_rate: {type: adam, beta2: 0.99}}", "0.03"},
      {"adafactor_pow_offset",
       "{type: adafactor, min_dim_size_to_factor: 6, decay_rate: {type: power, exponent: 0.7, offset: -3}}",
       "0.03"},
      {"adafactor_stacked_excluded",
       "{type: adafactor, min_dim_size_to_factor: 6, stacked_dim_names: [stack],"
       " exclude_from_parameter_scale: [layer_norm], epsilon1: 1.0e-20, epsilon2: 0.01}",
       ""},
  };
  const std::vector<Layouts> all = {Layouts::single(), layouts("x:2;y:2", "rows:x;cols:y;p:y"),
                                    layouts("x:2;y:2", "", "cols:x"),
                                    layouts("x:2;y:2", "", "", "rows:x;stack:y;p:y")};
  for (const auto& [name, optimizer, rate] : cases) {
    for (const Layouts& layout : all) expect_golden(name, update_options(optimizer, rate), layout);
  }
}

/// Runs two steps on one weight [0.1 .. 0.6] with loss = sum(c * w^2).
std::vector<Values> two_steps(const UpdateOptions& options) {
  const Shape shape{{"a", 2}, {"b", 3}};
  UpdateRun run({{"w", {shape, DType::kFloat32, {.1, .2, .3, .4, .5, .6}}}}, options);
  const Values c{1, -2, 3, -4, 5, 6};
  std::vector<Values> weights;
  for (int64_t step = 0; step < 2; ++step) {
    Values gradient = run.variables().at("w");
    for (size_t i = 0; i < c.size(); ++i) gradient[i] *= 2 * c[i];
    run.step(step, {{"w", gradient}}, Layouts::single());
    weights.push_back(run.variables().at("w"));
  }
  return weights;
}

TEST(Optimizers, GiveTheValuesOfTheOriginalOnASmallProblem) {
  expect_close("sgd", two_steps(update_options("sgd", "0.1"))[1], {.064, .392, .048, 1.296, 0, .024}, 1e-5,
               1e-6);
  expect_close("momentum", two_steps(update_options("momentum", "0.1"))[1],
               {.046, .464, -.114, 1.584, -.45, -.624}, 1e-5, 1e-6);
  expect_close("factored adafactor",
               two_steps(update_options("{type: adafactor, min_dim_size_to_factor: 2}"))[1],
               {.097680, .205983, .290954, .407948, .492168, .592301}, 1e-5, 1e-6);
}

TEST(Optimizers, AdamCorrectsTheBias) {
  // With bias correction the first step is learning_rate * sign(gradient), whatever the gradient's size.
  const Values first = two_steps(update_options("{type: adam, epsilon: 1.0e-12}", "0.01"))[0];
  expect_close("adam", first, {.09, .21, .29, .41, .49, .59}, 1e-5, 1e-6);
}

TEST(Optimizers, ScaledStepsOfAdamAreThoseOfTheWeightDividedByItsScale) {
  const Shape shape{{"a", 3}};
  constexpr double kScale = 8;
  const UpdateOptions options =
      update_options("{type: adam, epsilon: 0.001, weight_decay: 0.1, no_decay: []}", "0.02");
  UpdateRun conventional({{"w", {shape, DType::kFloat32, {0.1, -0.2, 0.3}}}}, options);
  UpdateRun scaled({{"w", {shape, DType::kFloat32, {0.8, -1.6, 2.4}}}}, options, kScale);
  for (int64_t step = 0; step < 4; ++step) {
    const Values gradient = {0.01, -0.02 * static_cast<double>(step), 0.003};
    Values smaller = gradient;
    for (double& g : smaller) g /= kScale;
    conventional.step(step, {{"w", gradient}}, Layouts::single());
    scaled.step(step, {{"w", smaller}}, Layouts::single());
    Values expected = conventional.variables().at("w");
    for (double& w : expected) w *= kScale;
    expect_close("w", scaled.variables().at("w"), expected, 1e-5);
  }
}

TEST(Optimizers, WeightDecayIsDecoupledAndLeavesBiasesAlone) {
  const Shape shape{{"a", 2}};
  for (const std::string optimizer :
       {"sgd", "momentum", "adam", "adamw", "adafactor", "soap", "lion", "muon"}) {
    const std::string name = fmt::format("{{type: {}, weight_decay: 0.5}}", optimizer);
    UpdateRun run({{"kernel", {shape, DType::kFloat32, {1, 2}}}, {"bias", {shape, DType::kFloat32, {1, 2}}}},
                  update_options(name, "0.1"));
    run.step(0, {{"kernel", {0, 0}}, {"bias", {0, 0}}}, Layouts::single());
    expect_close(optimizer, run.variables().at("kernel"), {0.95, 1.9}, 1e-5);
    expect_close(optimizer, run.variables().at("bias"), {1, 2}, 1e-5);
  }
}

TEST(Optimizers, LionMovesByTheSignOfTheInterpolatedMomentum) {
  const Shape shape{{"a", 3}};
  UpdateRun run({{"w", {shape, DType::kFloat32, {1, 1, 1}}}},
                update_options("{type: lion, weight_decay: 0.5, no_decay: []}", "0.1"));
  run.step(0, {{"w", {2, -3, 0}}}, Layouts::single());
  expect_close("m", run.variables().at("w/lion_m"), {0.02, -0.03, 0}, 1e-6);
  expect_close("w", run.variables().at("w"), {0.85, 1.05, 0.95}, 1e-6);
  // 0.9 m + 0.1 g has the sign of g where m is small, 0.99 m + 0.01 g of neither.
  run.step(1, {{"w", {-0.1, 1, 0}}}, layouts("x:3", "a:x"));
  expect_close("m", run.variables().at("w/lion_m"), {0.0188, -0.0197, 0}, 1e-6);
  expect_close("w", run.variables().at("w"), {0.7075, 0.8975, 0.9025}, 1e-6);
}

TEST(Optimizers, RulesSetRatesAndDecaysOfSingleWeights) {
  const GoldenTensor one{Shape{{"a", 1}}, DType::kFloat32, {1}};
  UpdateRun run(
      {{"b/kernel", one}, {"b/scale", one}, {"c", one}, {"d", one}},
      update_options("{type: sgd, weight_decay: 0.5, rules: ["
                     "{match: kernel, learning_rate: [0.5, {type: linear_warmup, steps_or_fraction: 2}]}, "
                     "{match: [^b, ^d$], rate_scale: 0.1, weight_decay: 2}, "
                     "{match: .*, weight_decay: 1, rate_scale: 3}]}",
                     "0.1"));
  const std::map<std::string, Values> gradients{{"b/kernel", {1}}, {"b/scale", {1}}, {"c", {1}}, {"d", {1}}};
  run.step(1, gradients, Layouts::single());
  expect_close("rate of its own", run.variables().at("b/kernel"), {1 - 0.025 * 3}, 1e-6);
  expect_close("rate and decay", run.variables().at("b/scale"), {1 - 0.01 * 3}, 1e-6);
  expect_close("the last rule", run.variables().at("c"), {1 - 0.3 * 2}, 1e-6);
  expect_close("the second pattern", run.variables().at("d"), {1 - 0.01 * 3}, 1e-6);
}

TEST(Optimizers, LayersBelowHaveSmallerRates) {
  const std::map<std::string, double> scales =
      layer_rate_scales({"m/embedding", "m/block_000/layer_000/q", "m/block_000/layer_001/wi",
                         "m/block_001/layer_000/q", "m/block_002/layer_000/q", "m/rms_norm/scale",
                         "decoder/block_000/layer_000/q", "decoder/positional_embedding", "head/kernel"},
                        0.5);
  EXPECT_THAT(scales,
              ::testing::UnorderedElementsAre(
                  ::testing::Pair("m/embedding", 0.0625), ::testing::Pair("m/block_000/layer_000/q", 0.125),
                  ::testing::Pair("m/block_000/layer_001/wi", 0.125),
                  ::testing::Pair("m/block_001/layer_000/q", 0.25),
                  ::testing::Pair("m/block_002/layer_000/q", 0.5), ::testing::Pair("m/rms_norm/scale", 1),
                  ::testing::Pair("head/kernel", 1), ::testing::Pair("decoder/block_000/layer_000/q", 0.5),
                  ::testing::Pair("decoder/positional_embedding", 0.0625)));
  const GoldenTensor one{Shape{{"a", 1}}, DType::kFloat32, {1}};
  UpdateRun run({{"embedding", one}, {"layer_0/w", one}, {"z", one}},
                update_options("{type: sgd, layer_decay: 0.5}", "0.4"));
  run.step(0, {{"embedding", {1}}, {"layer_0/w", {1}}, {"z", {1}}}, Layouts::single());
  expect_close("embedding", run.variables().at("embedding"), {0.9}, 1e-6);
  expect_close("layer", run.variables().at("layer_0/w"), {0.8}, 1e-6);
  expect_close("head", run.variables().at("z"), {0.6}, 1e-6);
}

TEST(Optimizers, RulesWithoutASettingAreErrors) {
  EXPECT_THROW(update_options("{type: sgd, rules: [{match: w}]}"), Error);
  EXPECT_THROW(update_options("{type: sgd, rules: [{frozen: true}]}"), Error);
}

TEST(Optimizers, ClippingScalesAllGradientsToOneNorm) {
  const Shape shape{{"a", 2}};
  const std::vector<Layouts> all = {Layouts::single(), layouts("x:2", "a:x"), layouts("x:2", "", "", "a:x")};
  for (const Layouts& layout : all) {
    UpdateRun run({{"u", {shape, DType::kFloat32, {0, 0}}}, {"v", {shape, DType::kFloat32, {0, 0}}}},
                  update_options("{type: sgd, clip_norm: 1}", "1"));
    const MeshRun result = run.step(0, {{"u", {2, 4}}, {"v", {4, 8}}}, layout);
    EXPECT_NEAR(result.outputs.at("grad_norm")[0], 10, 1e-5);
    expect_close("u", run.variables().at("u"), {-.2, -.4}, 1e-6);
    expect_close("v", run.variables().at("v"), {-.4, -.8}, 1e-6);
    run.step(1, {{"u", {.1, 0}}, {"v", {0, 0}}}, layout);  // below the limit: unchanged
    expect_close("u", run.variables().at("u"), {-.3, -.4}, 1e-6);
  }
}

TEST(Optimizers, NothingChangesWhenLossOrGradientsAreNotFinite) {
  const Shape shape{{"a", 2}, {"b", 2}};
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  for (const std::string optimizer :
       {"sgd", "momentum", "adam", "adam_weight_decay", "adafactor", "lion", "muon",
        "{type: soap, precondition_frequency: 1}",
        "{type: adafactor, min_dim_size_to_factor: 2, beta1: 0.9, weight_decay: 0.1, clip_norm: 1}"}) {
    UpdateRun run({{"w", {shape, DType::kFloat32, {1, 2, 3, 4}}}}, update_options(optimizer, "0.1"));
    run.step(0, {{"w", {1, 1, 1, 1}}}, Layouts::single());
    const auto before = run.variables();
    EXPECT_EQ(run.step(1, {{"w", {1, nan, 1, 1}}}, layouts("x:2", "a:x")).outputs.at("finite")[0], 0);
    EXPECT_EQ(run.step(1, {{"w", {inf, 1, 1, 1}}}, Layouts::single()).outputs.at("finite")[0], 0);
    EXPECT_EQ(run.step(1, {{"w", {1, 1, 1, 1}}}, Layouts::single(), nan).outputs.at("finite")[0], 0);
    EXPECT_EQ(run.variables(), before) << optimizer;
    EXPECT_EQ(run.step(1, {{"w", {1, 1, 1, 1}}}, Layouts::single()).outputs.at("finite")[0], 1);
    EXPECT_NE(run.variables(), before) << optimizer;
  }
}

TEST(Optimizers, NothingToTrainIsAnError) {
  Graph graph;
  EXPECT_THROW(add_update(graph, graph.input("loss", {}), {}, update_options("sgd", "0.1")), Error);
}

}  // namespace
}  // namespace mtf::testing
