#include "trainer/optimizer/schedules.h"

#include <gmock/gmock.h>

#include <cmath>

#include "engine/config/load.h"
#include "engine/safetensors/safetensors.h"

namespace mtf {
namespace {

/// Parses a learning rate as in a configuration.
std::vector<Schedule> parse(const std::string& yaml) {
  Diagnostics diagnostics;
  auto schedules =
      config::parse<std::vector<Schedule>>(config::parse_yaml(yaml, "test.yaml", diagnostics), diagnostics);
  diagnostics.throw_if_errors();
  return schedules;
}

/// A fixture with tables recorded from Mesh TensorFlow, for runs of 1000 steps.
class GoldenSchedules : public ::testing::Test {
 protected:
  void expect(const std::string& name, const std::function<double(int64_t)>& rate) {
    const std::vector<float> recorded = file_.at("lr/" + name).values<float>();
    const std::vector<int32_t> steps = file_.at("steps").values<int32_t>();
    for (size_t i = 0; i < steps.size(); ++i) {
      if (recorded[i] < 0) {  // before a schedule begins and after its end the original trains uphill
        EXPECT_GE(rate(steps[i]), 0) << name << " at step " << steps[i];
        continue;
      }
      EXPECT_NEAR(rate(steps[i]), recorded[i], 1e-5 * std::abs(recorded[i]) + 1e-9)
          << name << " at step " << steps[i];
    }
  }

  SafetensorsFile file_{MTF_SOURCE_DIR "/tests/golden/08_lr_schedules/tensors.safetensors"};
};

TEST_F(GoldenSchedules, LearningRates) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"constant_default", "constant"},
      {"constant_value", "{type: constant, value: 0.003}"},
      {"constant_value", "0.003"},
      {"constant_learning_rate", "{type: constant_learning_rate, learning_rate: 0.001}"},
      {"linear_decay_default", "linear_decay"},
      {"linear_decay_abs", "{type: linear_decay, steps_or_fraction: 300}"},
      {"linear_decay_fraction1", "{type: linear_decay, steps_or_fraction: 1}"},
      {"linear_warmup_default", "linear_warmup"},
      {"linear_warmup_fraction", "{type: linear_warmup, steps_or_fraction: 0.2}"},
      {"linear_warmup_one", "{type: linear_warmup, steps_or_fraction: 1}"},
      {"truncated_rsqrt_default", "truncated_rsqrt"},
      {"truncated_rsqrt_100", "{type: truncated_rsqrt, warmup_steps: 100}"},
      {"linear_decay_learning_rate_default", "linear_decay_learning_rate"},
      {"linear_decay_learning_rate_offset",
       "{type: linear_decay_learning_rate, initial_lr: 0.5, offset: 200}"},
      {"noam_default", "noam"},
      {"noam_custom",
       "{type: noam, warmup_steps: 100, linear_decay_fraction: 0.3, multiplier: 2, offset: 50}"},
      {"noam_no_decay", "{type: noam, warmup_steps: 100, linear_decay_fraction: 0}"},
      {"slanted_triangular_default", "slanted_triangular"},
      {"slanted_triangular_custom",
       "{type: slanted_triangular, cut_fraction: 0.25, ratio: 16, max_learning_rate: 0.1, start_step: 100}"},
      {"product_rsqrt_decay", "[0.5, {type: truncated_rsqrt, warmup_steps: 100}, linear_decay]"},
      {"product_warmup_decay_offset",
       "{type: product, offset: 100, factors: [0.1, {type: linear_warmup, steps_or_fraction: 50},"
       " {type: linear_decay, steps_or_fraction: 0.5}]}"},
      {"bert_warmup_decay", "{type: bert, learning_rate: 0.001, warmup_steps: 100}"},
  };
  for (const auto& [name, yaml] : cases) {
    const std::vector<Schedule> schedules = parse(yaml);
    expect(name, [&](int64_t step) { return schedule_value(schedules, step, 1000); });
  }
}

TEST(Schedules, AreNeverBelowZero) {
  for (const std::string yaml :
       {"{type: linear_decay, steps_or_fraction: 1.0, total_steps: 3}", "{type: noam, total_steps: 3}",
        "{type: linear_decay_learning_rate, total_steps: 3}", "{type: slanted_triangular, total_steps: 3}",
        "{type: slanted_triangular, start_step: 5}", "{type: linear_decay_learning_rate, offset: 50}",
        "{type: noam, offset: 50}",
        "{type: product, factors: [0.5, {type: linear_warmup, steps_or_fraction: 4}], offset: 3}"}) {
    const std::vector<Schedule> schedules = parse(yaml);
    for (int64_t step = 0; step < 12; ++step) {
      const double rate = schedule_value(schedules, step, 10);
      EXPECT_TRUE(rate >= 0 && rate <= 1) << yaml << " is " << rate << " at step " << step;
    }
  }
  EXPECT_DOUBLE_EQ(schedule_value(parse("{type: linear_decay_learning_rate, offset: 50}"), 5, 10), 0.1);
  EXPECT_THROW(parse("{type: constant, value: -0.1}"), Error);
  EXPECT_THROW(parse("{type: product, factors: [-0.5, noam]}"), Error);
}

TEST(Schedules, FallLikeACosine) {
  const auto whole = parse("[0.1, cosine_decay]");
  EXPECT_DOUBLE_EQ(schedule_value(whole, 0, 1000), 0.1);
  EXPECT_NEAR(schedule_value(whole, 250, 1000), 0.1 * (1 + std::sqrt(0.5)) / 2, 1e-12);
  EXPECT_NEAR(schedule_value(whole, 500, 1000), 0.05, 1e-12);
  EXPECT_NEAR(schedule_value(whole, 2000, 1000), 0, 1e-12);
  const auto last = parse("{type: cosine_decay, steps_or_fraction: 100, end: 0.2}");
  EXPECT_DOUBLE_EQ(schedule_value(last, 900, 1000), 1);
  EXPECT_NEAR(schedule_value(last, 950, 1000), 0.6, 1e-12);
  EXPECT_NEAR(schedule_value(last, 1000, 1000), 0.2, 1e-12);
}

/// The rates of `yaml` at some steps of a run of 1000.
void expect_rates(const std::string& yaml, const std::vector<std::pair<int64_t, double>>& rates) {
  const auto schedule = parse(yaml);
  for (const auto& [step, rate] : rates)
    EXPECT_NEAR(schedule_value(schedule, step, 1000), rate, 1e-12) << yaml << " at step " << step;
}

TEST(Schedules, RiseToTheirRateAndFallAsTheirShape) {
  expect_rates("{type: cosine, learning_rate: 2, warmup_steps: 200, end: 0.1}",
               {{0, 0}, {50, 0.5}, {200, 2}, {600, 1.1}, {1000, 0.2}, {1500, 0.2}});
  expect_rates("{type: polynomial, learning_rate: 2, warmup_steps: 200}",
               {{100, 1}, {200, 2}, {600, 1}, {1000, 0}, {1500, 0}});
  expect_rates("{type: polynomial, learning_rate: 1, power: 2, end: 0.5}",
               {{0, 1}, {500, 0.625}, {1000, 0.5}});
  expect_rates("{type: inverse_sqrt, learning_rate: 3, warmup_steps: 100}",
               {{0, 0}, {50, 1.5}, {100, 3}, {400, 1.5}, {900, 1}});
}

TEST(Schedules, StayAtTheirRateUntilTheyCoolDown) {
  expect_rates("{type: wsd, learning_rate: 2, warmup_steps: 100}",
               {{50, 1}, {100, 2}, {800, 2}, {900, 1}, {1000, 0}, {1200, 0}});
  expect_rates("{type: wsd, learning_rate: 1, decay: 400, shape: sqrt, end: 0.2}",
               {{0, 1}, {600, 1}, {700, 0.6}, {1000, 0.2}});
  expect_rates("{type: wsd, learning_rate: 1, decay: 0.5, shape: cosine}", {{500, 1}, {750, 0.5}, {1000, 0}});
  EXPECT_TRUE(needs_total(parse("{type: wsd, learning_rate: 1, decay: 100}")));
  EXPECT_FALSE(needs_total(parse("{type: wsd, learning_rate: 1, total_steps: 100}")));
  EXPECT_FALSE(needs_total(parse("{type: inverse_sqrt, learning_rate: 1}")));
}

TEST(Schedules, StayFiniteWhereTheWarmUpIsTheWholeRun) {
  for (const std::string type : {"cosine", "polynomial", "wsd"}) {
    const auto schedule = parse("{type: " + type + ", learning_rate: 1, warmup_steps: 1000}");
    for (const int64_t step : {0, 999, 1000, 1001})
      EXPECT_TRUE(std::isfinite(schedule_value(schedule, step, 1000))) << type << " at step " << step;
  }
}

TEST(Schedules, FallInSteps) {
  const auto schedule = parse("{type: step_decay, at: [0.5, 800], factor: 0.1}");
  EXPECT_DOUBLE_EQ(schedule_value(schedule, 499, 1000), 1);
  EXPECT_DOUBLE_EQ(schedule_value(schedule, 500, 1000), 0.1);
  EXPECT_NEAR(schedule_value(schedule, 800, 1000), 0.01, 1e-15);
  EXPECT_TRUE(needs_total(schedule));
  EXPECT_FALSE(needs_total(parse("{type: step_decay, at: [500]}")));
}

TEST_F(GoldenSchedules, Adafactor) {
  expect("adafactor_default_lr", [](int64_t step) { return adafactor_learning_rate(step, true); });
  expect("adafactor_default_lr_no_param_scale",
         [](int64_t step) { return adafactor_learning_rate(step, false); });
  expect("adafactor_decay_pow_default", [](int64_t step) { return decay_rate_value(PowerDecay{}, step); });
  expect("adafactor_decay_adam_0.999", [](int64_t step) { return decay_rate_value(AdamDecay{}, step); });
}

TEST(Schedules, TotalStepsOfTheScheduleReplacesThoseOfTheRun) {
  const auto decay = parse("{type: linear_decay, steps_or_fraction: 1, total_steps: 100}");
  EXPECT_DOUBLE_EQ(schedule_value(decay, 75, 1000000), 0.25);
  EXPECT_FALSE(needs_total(decay));
}

TEST(Schedules, SayWhetherTheyDependOnTheLengthOfTheRun) {
  EXPECT_TRUE(needs_total(parse("noam")));
  EXPECT_FALSE(needs_total(parse("{type: noam, linear_decay_fraction: 0}")));
  EXPECT_FALSE(needs_total(parse("linear_warmup")));
  EXPECT_TRUE(needs_total(parse("{type: linear_warmup, steps_or_fraction: 0.1}")));
  EXPECT_TRUE(needs_total(parse("[0.1, {type: product, factors: [linear_decay]}]")));
  EXPECT_FALSE(needs_total(parse("0.1")));
}

TEST(Schedules, RunsShorterThanTheRiseStayFinite) {
  EXPECT_TRUE(std::isfinite(schedule_value(parse("slanted_triangular"), 0, 3)));
}

TEST(Schedules, MistakesAreNamed) {
  try {
    parse("{type: noam, warmup: 100}");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("warmup_steps"));
  }
  EXPECT_THROW(parse("nomm"), Error);
  EXPECT_THROW(parse("cosine"), Error);  // without its rate
  EXPECT_THROW(parse("{type: linear_decay, steps_or_fraction: 0}"), Error);
}

}  // namespace
}  // namespace mtf
