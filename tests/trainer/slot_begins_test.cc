// Tests slots that begin later than at step 0: their weights move like those of a fresh run.
#include "trainer/optimizer/slot_begins.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <set>

#include "engine/base/error.h"
#include "tests/trainer/update_run.h"
#include "trainer/checkpoint/checkpoints.h"

namespace mtf::testing {
namespace {

constexpr int64_t kBegin = 3000;

using Weights = std::map<std::string, GoldenTensor>;

const Weights kOneMatrix = {{"w", {{{"a", 4}, {"b", 8}}, DType::kFloat32, random_values(32, 1)}}};

std::map<std::string, Values> gradients_of(const Weights& weights, int64_t i) {
  std::map<std::string, Values> gradients;
  for (const auto& [name, weight] : weights) {
    const auto seed = static_cast<unsigned>(10 * i) + static_cast<unsigned>(name[0]);
    gradients[name] = random_values(weight.shape.size(), seed);
  }
  return gradients;
}

/// The weights, slots and means after four steps from step `first` on.
std::map<std::string, Values> after_steps(const Weights& weights, UpdateOptions options, int64_t first,
                                          std::shared_ptr<SlotBegins> begins,
                                          const Layouts& layouts = Layouts::single()) {
  options.begins = std::move(begins);
  UpdateRun run(weights, options);
  for (int64_t i = 0; i < 4; ++i) run.step(first + i, gradients_of(weights, i), layouts);
  return run.variables();
}

/// The begins of a run that goes on after kBegin from a checkpoint that has these variables.
std::shared_ptr<SlotBegins> from_checkpoint(std::set<std::string, std::less<>> saved) {
  return std::make_shared<SlotBegins>(kBegin, std::move(saved), std::map<std::string, int64_t>{});
}

TEST(SlotBegins, AreThoseOfTheCheckpointOrItsStep) {
  const SlotBegins begins(kBegin, {"a/adam_m", "b/adam_m"}, {{"b/adam_m", 70}});
  EXPECT_EQ(begins.of("a/adam_m"), 0);
  EXPECT_EQ(begins.of("b/adam_m"), 70);
  EXPECT_EQ(begins.of("c/adam_m"), kBegin);
  EXPECT_EQ(SlotBegins().of("c/adam_m"), 0);
}

TEST(SlotBegins, AWeightWithNewSlotsMovesAsInAFreshRun) {
  for (const char* optimizer :
       {"{type: adam, weight_decay: 0.1}", "adamw", "adam_weight_decay", "{type: muon, adam: [w]}", "muon",
        "{type: soap, precondition_frequency: 2}", "adafactor",
        "{type: adafactor, min_dim_size_to_factor: 2, beta1: 0.9}",
        "{type: adafactor, decay_rate: {type: adam}}",
        "{type: adafactor, decay_rate: {type: power, offset: -5}}", "lion", "momentum"}) {
    SCOPED_TRACE(optimizer);
    UpdateOptions options = update_options(optimizer, "0.01");
    options.ema_decay = 0.999;
    for (const Layouts& layout : {Layouts::single(), layouts("x:2;y:2", "a:x", "", "b:y")}) {
      const auto fresh = after_steps(kOneMatrix, options, 0, nullptr, layout);
      EXPECT_EQ(after_steps(kOneMatrix, options, kBegin, from_checkpoint({"w"}), layout), fresh);
    }
  }
}

TEST(SlotBegins, AWeightWhoseSlotsAreInTheCheckpointCountsFromTheStart) {
  Weights weights = kOneMatrix;
  weights["v"] = {{{"a", 4}}, DType::kFloat32, random_values(4, 2)};
  const UpdateOptions options = update_options("{type: adam, beta2: 0.99}", "0.01");
  const auto mixed =
      after_steps(weights, options, kBegin, from_checkpoint({"v", "v/adam_m", "v/adam_v", "w"}));
  const auto without = after_steps(weights, options, kBegin, nullptr);
  const auto fresh = after_steps(weights, options, 0, nullptr);
  EXPECT_EQ(mixed.at("v"), without.at("v"));
  EXPECT_EQ(mixed.at("w"), fresh.at("w"));
  EXPECT_NE(mixed.at("w"), without.at("w"));
}

/// The inputs of an update of Adam for vectors of these names.
std::vector<StepScalar> scalars_of_adam(const std::vector<std::string>& names,
                                        std::shared_ptr<SlotBegins> begins) {
  Graph graph;
  std::vector<VariableGradient> gradients;
  for (const std::string& name : names) {
    const Variable& variable =
        graph.variable(name, {{"a", 4}}, DType::kFloat32, Initializer::zeros(), Variable::Kind::kWeight);
    gradients.push_back({&variable, graph.input("gradient/" + name, {{"a", 4}})});
  }
  UpdateOptions options = update_options("adam", "0.01");
  options.begins = std::move(begins);
  return add_update(graph, graph.input("loss", {}), gradients, options).scalars;
}

std::vector<std::string> names_of(const std::vector<StepScalar>& scalars) {
  std::vector<std::string> names;
  for (const StepScalar& scalar : scalars) names.push_back(scalar.input);
  return names;
}

TEST(SlotBegins, SlotsThatBeginTogetherShareTheirCount) {
  const auto begins = from_checkpoint({"a", "a/adam_m", "a/adam_v", "b", "c"});
  const std::vector<StepScalar> scalars = scalars_of_adam({"a", "b", "c"}, begins);
  EXPECT_THAT(names_of(scalars),
              ::testing::ElementsAre("optimizer/learning_rate", "optimizer/second_moment_correction",
                                     "optimizer/first_moment_correction",
                                     "optimizer/second_moment_correction/since_3000",
                                     "optimizer/first_moment_correction/since_3000"));
  EXPECT_NEAR(scalars[2].value(kBegin), 1, 1e-12);
  EXPECT_NEAR(scalars[4].value(kBegin), 1 / (1 - 0.9), 1e-12);
  EXPECT_NEAR(scalars[4].value(kBegin + 1), 1 / (1 - 0.81), 1e-12);
  // An older checkpoint, which lacks the same slots.
  *begins = SlotBegins(kBegin - 1, {"a", "a/adam_m", "a/adam_v", "b", "c"}, {});
  EXPECT_NEAR(scalars[4].value(kBegin), 1 / (1 - 0.81), 1e-12);
  EXPECT_THAT(names_of(scalars_of_adam({"a", "b"}, nullptr)),
              ::testing::ElementsAre("optimizer/learning_rate", "optimizer/second_moment_correction",
                                     "optimizer/first_moment_correction"));
}

TEST(SlotBegins, AServerIsToldThemOnceItsGraphIsBuilt) {
  const auto begins = std::make_shared<SlotBegins>(SlotBegins::set_later());
  const std::vector<StepScalar> scalars = scalars_of_adam({"a", "b"}, begins);
  ASSERT_EQ(scalars.size(), 5u);
  begins->set("b/adam_m", kBegin);
  ASSERT_EQ(scalars[2].input, "optimizer/first_moment_correction/a/adam_m");
  ASSERT_EQ(scalars[4].input, "optimizer/first_moment_correction/b/adam_m");
  EXPECT_NEAR(scalars[2].value(kBegin), 1, 1e-12);
  EXPECT_NEAR(scalars[4].value(kBegin), 1 / (1 - 0.9), 1e-12);
}

TEST(SlotBegins, AreReadFromAManifest) {
  Manifest manifest;
  manifest.step = 90;
  manifest.next_rows["train"] = 0;
  for (const char* name : {"w", "w/adam_m", "v/adam_m"})
    manifest.variables.push_back({.name = name, .shape = {}, .blocks = {}});
  EXPECT_EQ(run_state(manifest, "run").slot_begins->of("w/adam_m"), 0);
  manifest.state["slot_begin/w/adam_m"] = 70;
  const RunState state = run_state(manifest, "run");
  EXPECT_EQ(state.slot_begins->of("w/adam_m"), 70);
  EXPECT_EQ(state.slot_begins->of("v/adam_m"), 0);
  EXPECT_EQ(state.slot_begins->of("u/adam_m"), 90);
  manifest.state["slot_begin/w/adam_m"] = 91;
  EXPECT_THROW(run_state(manifest, "run"), DamagedCheckpoint);
}

}  // namespace
}  // namespace mtf::testing
