#include "trainer/optimizer/schedules.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "engine/base/reproducible_math.h"

namespace mtf {
namespace {

/// A number of steps, or up to 1 a part of the run.
double steps_of(double steps_or_fraction, double total) {
  return steps_or_fraction <= 1 ? steps_or_fraction * total : steps_or_fraction;
}

double half_cosine(double p) { return (1 + reproducible::cos(std::numbers::pi * p)) / 2; }

/// From 1 to `end`, as `shape` goes from 1 to 0.
double down_to(double end, double shape) { return end + (1 - end) * shape; }

/// rest / steps, but neither below 0 nor above 1, also where a decay over no steps is over or has not begun.
double part_of_one(double rest, double steps) {
  return steps > 0 ? std::clamp(rest / steps, 0.0, 1.0) : (rest > 0 ? 1.0 : 0.0);
}

double value(double constant, double, double) { return constant; }

double value(const NoamSchedule& s, double step, double total) {
  const double steps = total - s.offset;
  const double at = step - s.offset;
  double rate = s.multiplier / std::sqrt(std::max(at, s.warmup_steps));
  if (s.linear_decay_fraction > 0) rate *= part_of_one(steps - at, steps * s.linear_decay_fraction);
  return rate;
}

double value(const TruncatedRsqrtSchedule& s, double step, double) {
  return 1 / std::sqrt(std::max(step, s.warmup_steps));
}

double value(const LinearWarmupSchedule& s, double step, double total) {
  return part_of_one(step, steps_of(s.steps_or_fraction, total));
}

double value(const LinearDecaySchedule& s, double step, double total) {
  return part_of_one(total - step, steps_of(s.steps_or_fraction, total));
}

double value(const CosineDecaySchedule& s, double step, double total) {
  const double rest = part_of_one(total - step, steps_of(s.steps_or_fraction, total));
  return down_to(s.end, half_cosine(1 - rest));
}

double value(const StepDecaySchedule& s, double step, double total) {
  double rate = 1;
  for (const double at : s.at) {
    if (step >= steps_of(at, total)) rate *= s.factor;
  }
  return rate;
}

double value(const ConstantSchedule& s, double, double) { return s.value; }

double value(const ConstantLearningRateSchedule& s, double, double) { return s.learning_rate; }

double value(const LinearDecayLearningRateSchedule& s, double step, double total) {
  return s.initial_lr * part_of_one(total - step, total - s.offset);
}

double value(const SlantedTriangularSchedule& s, double step, double total) {
  const double at = step - s.start_step;
  const double cut = std::max(1.0, std::floor(total * s.cut_fraction));
  const double p = at < cut ? at / cut : 1 - (at - cut) / (cut * (1 / s.cut_fraction - 1));
  return s.max_learning_rate * std::max(0.0, 1 + p * (s.ratio - 1)) / s.ratio;
}

double value(const BertSchedule& s, double step, double total) {
  if (step < s.warmup_steps) return s.learning_rate * step / s.warmup_steps;
  return s.learning_rate * (1 - std::min(step, total) / total);
}

/// The part of the rate that the warm-up leaves: 1 after it.
double warmup_factor(const WarmupSchedule& s, double step) {
  return step < s.warmup_steps ? step / s.warmup_steps : 1;
}

/// Where `step` stands between `from` and `to`, from 0 to 1.
double progress(double step, double from, double to) {
  return to > from ? std::clamp((step - from) / (to - from), 0.0, 1.0) : (step < to ? 0.0 : 1.0);
}

double value(const CosineSchedule& s, double step, double total) {
  const double p = progress(step, s.warmup_steps, total);
  return s.learning_rate * warmup_factor(s, step) * down_to(s.end, half_cosine(p));
}

double value(const PolynomialSchedule& s, double step, double total) {
  const double p = progress(step, s.warmup_steps, total);
  const double shape = p < 1 ? reproducible::pow(1 - p, s.power) : 0;
  return s.learning_rate * warmup_factor(s, step) * down_to(s.end, shape);
}

double cooldown(Cooldown shape, double p) {
  switch (shape) {
    case Cooldown::kLinear:
      return 1 - p;
    case Cooldown::kSqrt:
      return 1 - std::sqrt(p);
    case Cooldown::kCosine:
      break;
  }
  return half_cosine(p);
}

double value(const WsdSchedule& s, double step, double total) {
  const double p = progress(step, total - steps_of(s.decay, total), total);
  return s.learning_rate * warmup_factor(s, step) * down_to(s.end, cooldown(s.shape, p));
}

double value(const InverseSqrtSchedule& s, double step, double) {
  const double root = step > s.warmup_steps ? std::sqrt(s.warmup_steps / step) : 1;
  return s.learning_rate * warmup_factor(s, step) * root;
}

/// The length of the run as `schedule` sees it.
template <class S>
double total_for(const S& schedule, double total) {
  if constexpr (requires { schedule.total_steps; }) {
    if (schedule.total_steps) return static_cast<double>(*schedule.total_steps);
  }
  return total;
}

double value(const ProductSchedule& s, double step, double total) {
  double product = 1;
  for (const ScheduleFactor& factor : s.factors) {
    product *= std::visit(
        [&](const auto& f) { return value(f, step - s.offset, total_for(f, total - s.offset)); }, factor);
  }
  return product;
}

template <class S>
bool depends_on_total(const S& schedule) {
  if constexpr (requires { schedule.total_steps; }) {
    if (schedule.total_steps) return false;
    if constexpr (requires { schedule.linear_decay_fraction; }) return schedule.linear_decay_fraction > 0;
    if constexpr (std::is_same_v<S, LinearWarmupSchedule>) return schedule.steps_or_fraction <= 1;
    if constexpr (std::is_same_v<S, StepDecaySchedule>)
      return std::ranges::any_of(schedule.at, [](double at) { return at <= 1; });
    if constexpr (std::is_same_v<S, ProductSchedule>) {
      return std::any_of(schedule.factors.begin(), schedule.factors.end(), [](const ScheduleFactor& factor) {
        return std::visit([](const auto& f) { return depends_on_total(f); }, factor);
      });
    }
    return true;
  }
  return false;
}

constexpr std::string_view kTotalMeaning = "length of the run for this schedule; by default the run's own";

}  // namespace

double schedule_value(const Schedule& schedule, int64_t step, int64_t total) {
  return std::visit(
      [&](const auto& s) {
        return value(s, static_cast<double>(step), total_for(s, static_cast<double>(total)));
      },
      schedule);
}

double schedule_value(const std::vector<Schedule>& schedules, int64_t step, int64_t total) {
  double product = 1;
  for (const Schedule& schedule : schedules) product *= schedule_value(schedule, step, total);
  return product;
}

bool needs_total(const std::vector<Schedule>& schedules) {
  return std::any_of(schedules.begin(), schedules.end(), [](const Schedule& schedule) {
    return std::visit([](const auto& s) { return depends_on_total(s); }, schedule);
  });
}

double decay_rate_value(const DecayRate& decay, int64_t step) {
  const double t = static_cast<double>(step) + 1;
  if (const auto* power = std::get_if<PowerDecay>(&decay))
    return 1 - reproducible::pow(t - power->offset, -power->exponent);
  if (const auto* adam = std::get_if<AdamDecay>(&decay)) {
    // In float32, as the original computes it: the differences from 1 lose digits.
    const auto beta2 = static_cast<float>(adam->beta2);
    const auto steps = static_cast<float>(t);
    return beta2 * (1 - reproducible::pow(beta2, steps - 1)) / (1 - reproducible::pow(beta2, steps));
  }
  return std::get<double>(decay);
}

double adafactor_learning_rate(int64_t step, bool multiply_by_parameter_scale) {
  const double rate = std::min(1 / std::sqrt(static_cast<double>(step) + 1), 0.01);
  return multiply_by_parameter_scale ? rate : 0.05 * rate;
}

void describe(config::Visitor& visit, NoamSchedule& options) {
  visit("warmup_steps", options.warmup_steps,
        "the rate is flat for so many steps, then falls as 1/sqrt(step)", config::positive);
  visit("linear_decay_fraction", options.linear_decay_fraction,
        "last part of the run in which the rate falls to 0", config::probability);
  visit("multiplier", options.multiplier, "factor", config::non_negative);
  visit("offset", options.offset, "step that counts as 0");
  visit("total_steps", options.total_steps, kTotalMeaning, config::positive);
}

void describe(config::Visitor& visit, TruncatedRsqrtSchedule& options) {
  visit("warmup_steps", options.warmup_steps,
        "the rate is flat for so many steps, then falls as 1/sqrt(step)", config::positive);
}

void describe(config::Visitor& visit, LinearWarmupSchedule& options) {
  visit("steps_or_fraction", options.steps_or_fraction,
        "steps, or up to 1 part of the run, until the factor is 1", config::positive);
  visit("total_steps", options.total_steps, kTotalMeaning, config::positive);
}

void describe(config::Visitor& visit, LinearDecaySchedule& options) {
  visit("steps_or_fraction", options.steps_or_fraction,
        "last steps, or up to 1 part, of the run in which the factor falls to 0", config::positive);
  visit("total_steps", options.total_steps, kTotalMeaning, config::positive);
}

void describe(config::Visitor& visit, CosineDecaySchedule& options) {
  visit("steps_or_fraction", options.steps_or_fraction,
        "last steps, or up to 1 part, of the run in which the factor falls from 1 like half a cosine",
        config::positive);
  visit("end", options.end, "the factor at the end", config::non_negative);
  visit("total_steps", options.total_steps, kTotalMeaning, config::positive);
}

void describe(config::Visitor& visit, StepDecaySchedule& options) {
  visit("at", options.at, "steps, or up to 1 parts of the run, at which the rate falls", config::positive);
  visit("factor", options.factor, "what the rate is multiplied by at each of them", config::non_negative);
  visit("total_steps", options.total_steps, kTotalMeaning, config::positive);
}

void describe(config::Visitor& visit, ConstantSchedule& options) {
  visit("value", options.value, "the factor", config::non_negative);
}

void describe(config::Visitor& visit, ConstantLearningRateSchedule& options) {
  visit("learning_rate", options.learning_rate, "the rate", config::non_negative);
}

void describe(config::Visitor& visit, LinearDecayLearningRateSchedule& options) {
  visit("initial_lr", options.initial_lr, "rate up to step `offset`; then it falls to 0",
        config::non_negative);
  visit("offset", options.offset, "first step of the decay");
  visit("total_steps", options.total_steps, kTotalMeaning, config::positive);
}

void describe(config::Visitor& visit, SlantedTriangularSchedule& options) {
  visit("cut_fraction", options.cut_fraction, "part of the run in which the rate rises",
        config::Bounds{0.0, 1.0, true});
  visit("ratio", options.ratio, "highest rate / lowest rate", config::positive);
  visit("max_learning_rate", options.max_learning_rate, "highest rate", config::non_negative);
  visit("start_step", options.start_step, "step that counts as 0");
  visit("total_steps", options.total_steps, kTotalMeaning, config::positive);
}

void describe(config::Visitor& visit, BertSchedule& options) {
  visit("learning_rate", options.learning_rate, "rate that falls linearly to 0", config::non_negative);
  visit("warmup_steps", options.warmup_steps, "first steps, in which the rate rises from 0",
        config::non_negative);
  visit("total_steps", options.total_steps, kTotalMeaning, config::positive);
}

config::EnumNames enum_names(Cooldown) {
  return {{"linear", Cooldown::kLinear}, {"sqrt", Cooldown::kSqrt}, {"cosine", Cooldown::kCosine}};
}

namespace {

void describe_warmup(config::Visitor& visit, WarmupSchedule& options) {
  visit("learning_rate", options.learning_rate, "the highest rate", config::non_negative, config::required);
  visit("warmup_steps", options.warmup_steps, "first steps, in which the rate rises from 0",
        config::non_negative);
}

template <class S>
void describe_end(config::Visitor& visit, S& options) {
  visit("end", options.end, "the rate at the end of the run, as a part of `learning_rate`",
        config::non_negative);
  visit("total_steps", options.total_steps, kTotalMeaning, config::positive);
}

}  // namespace

void describe(config::Visitor& visit, CosineSchedule& options) {
  describe_warmup(visit, options);
  describe_end(visit, options);
}

void describe(config::Visitor& visit, PolynomialSchedule& options) {
  describe_warmup(visit, options);
  visit("power", options.power, "1: the rate falls as a line, 2: as a parabola", config::positive);
  describe_end(visit, options);
}

void describe(config::Visitor& visit, WsdSchedule& options) {
  describe_warmup(visit, options);
  visit("decay", options.decay, "last steps, or up to 1 part, of the run in which the rate falls",
        config::positive);
  visit("shape", options.shape, "how it falls over the part p of them: 1 - p, 1 - sqrt(p), or half a cosine");
  describe_end(visit, options);
}

void describe(config::Visitor& visit, InverseSqrtSchedule& options) {
  visit("learning_rate", options.learning_rate, "the highest rate", config::non_negative, config::required);
  visit("warmup_steps", options.warmup_steps,
        "first steps, in which the rate rises from 0; then it falls as 1/sqrt(step)", config::positive);
}

void describe(config::Visitor& visit, ProductSchedule& options) {
  visit("factors", options.factors, "numbers and schedules that are multiplied", config::non_negative,
        config::required);
  visit("offset", options.offset, "step that counts as 0 for all factors");
  visit("total_steps", options.total_steps, kTotalMeaning, config::positive);
}

void describe(config::Visitor& visit, PowerDecay& options) {
  visit("exponent", options.exponent, "1 - (step + 1 - offset)^-exponent", config::positive);
  visit("offset", options.offset, "subtracted from step + 1", config::at_most(0));
}

void describe(config::Visitor& visit, AdamDecay& options) {
  visit("beta2", options.beta2, "decay rate after bias correction", config::Bounds{0.0, 0.9999999});
}

}  // namespace mtf
