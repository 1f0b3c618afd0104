// Learning-rate schedules: rates as functions of the step, and the decay rates of Adafactor's second moments.
//
//   learning_rate: 0.001
//   learning_rate: {type: noam, warmup_steps: 4000}
//   learning_rate: [0.5, {type: truncated_rsqrt}, linear_decay]       # the product of its factors
//
// Steps count from 0. `total` is the planned length of the run in steps; a schedule may name its own with
// total_steps.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/config/schema.h"

namespace mtf {

/// 1 / sqrt(max(s, warmup_steps)) * multiplier, s = step - offset; over the last part `linear_decay_fraction`
/// of the N = total - offset steps times min(1, (N - s) / (N * linear_decay_fraction)), then 0.
struct NoamSchedule {
  static constexpr std::string_view type_name = "noam";
  static constexpr std::array common_names = {CommonName{"rsqrt", "`truncated_rsqrt`"},
                                              CommonName{"transformer", "`noam`"}};
  double warmup_steps = 10000;
  double linear_decay_fraction = 0.1;
  double multiplier = 1;
  double offset = 0;
  std::optional<int64_t> total_steps;
};

/// 1 / sqrt(max(step, warmup_steps)).
struct TruncatedRsqrtSchedule {
  static constexpr std::string_view type_name = "truncated_rsqrt";
  double warmup_steps = 10000;
};

/// step / w from 0 to 1, w = steps_or_fraction * total where that is at most 1, else steps_or_fraction.
struct LinearWarmupSchedule {
  static constexpr std::string_view type_name = "linear_warmup";
  static constexpr std::array common_names = {
      CommonName{"warmup", "`linear_warmup`, one factor of a list such as `[0.001, linear_warmup]`"}};
  double steps_or_fraction = 10000;
  std::optional<int64_t> total_steps;
};

/// min(1, (total - step) / d), d as w above; 0 beyond total.
struct LinearDecaySchedule {
  static constexpr std::string_view type_name = "linear_decay";
  static constexpr std::array common_names = {
      CommonName{"linear", "`linear_decay`, or `polynomial`, which has a warm-up"}};
  double steps_or_fraction = 0.1;
  std::optional<int64_t> total_steps;
};

/// 1, and over the last d steps end + (1 - end) (1 + cos(pi p)) / 2, p = 1 - (total - step) / d from 0 to 1, d as w above;
/// `end` beyond total. Loshchilov and Hutter, SGDR (2017), eq. 5, without restarts.
struct CosineDecaySchedule {
  static constexpr std::string_view type_name = "cosine_decay";
  double steps_or_fraction = 1;
  double end = 0;
  std::optional<int64_t> total_steps;
};

/// factor^n after n of the steps `at`, each a step or, up to 1, a part of the run.
struct StepDecaySchedule {
  static constexpr std::string_view type_name = "step_decay";
  static constexpr std::array common_names = {
      CommonName{"multistep", "`step_decay`"}, CommonName{"multi_step", "`step_decay`"},
      CommonName{"piecewise", "`step_decay`"}, CommonName{"step", "`step_decay`"}};
  std::vector<double> at = {0.33, 0.67, 0.89};
  double factor = 0.1;
  std::optional<int64_t> total_steps;
};

struct ConstantSchedule {
  static constexpr std::string_view type_name = "constant";
  double value = 1;
};

struct ConstantLearningRateSchedule {
  static constexpr std::string_view type_name = "constant_learning_rate";
  static constexpr std::array common_names = {
      CommonName{"fixed", "a number, such as `learning_rate: 0.001`"}};
  double learning_rate = 0.01;
};

/// initial_lr * min(1, (total - step) / (total - offset)), and 0 beyond total.
struct LinearDecayLearningRateSchedule {
  static constexpr std::string_view type_name = "linear_decay_learning_rate";
  double initial_lr = 0.1;
  double offset = 0;
  std::optional<int64_t> total_steps;
};

/// Howard and Ruder, Universal language model fine-tuning (2018), eq. 3: s = step - start_step, cut =
/// floor(total * cut_fraction), p = s / cut before the cut, 1 - (s - cut) / (cut (1 / cut_fraction - 1))
/// after it; the rate is max_learning_rate * (1 + p (ratio - 1)) / ratio, but at least 0.
struct SlantedTriangularSchedule {
  static constexpr std::string_view type_name = "slanted_triangular";
  double cut_fraction = 0.1;
  double ratio = 32;
  double max_learning_rate = 0.01;
  double start_step = 0;
  std::optional<int64_t> total_steps;
};

/// learning_rate * step / warmup_steps during the warm-up, then learning_rate * (1 - min(step, total) /
/// total).
struct BertSchedule {
  static constexpr std::string_view type_name = "bert";
  static constexpr std::array common_names = {CommonName{"one_cycle", "`slanted_triangular`"}};
  double learning_rate = 5e-5;
  double warmup_steps = 0;
  std::optional<int64_t> total_steps;
};

/// The rates below rise to `learning_rate` as learning_rate * step / warmup_steps and then follow their shape.
struct WarmupSchedule {
  double learning_rate = 0;
  double warmup_steps = 0;
};

/// After the warm-up learning_rate * (end + (1 - end) (1 + cos(pi p)) / 2), where p goes from 0 to 1 over the steps from
/// the warm-up to `total`. Loshchilov and Hutter, SGDR (2017), eq. 5, without restarts.
struct CosineSchedule : WarmupSchedule {
  static constexpr std::string_view type_name = "cosine";
  static constexpr std::array common_names = {CommonName{"cosine_annealing", "`cosine`"},
                                              CommonName{"cosine_with_warmup", "`cosine`"}};
  double end = 0;
  std::optional<int64_t> total_steps;
};

/// After the warm-up learning_rate * (end + (1 - end) (1 - p)^power), p as for cosine.
struct PolynomialSchedule : WarmupSchedule {
  static constexpr std::string_view type_name = "polynomial";
  static constexpr std::array common_names = {CommonName{"poly", "`polynomial`"},
                                              CommonName{"polynomial_decay", "`polynomial`"},
                                              CommonName{"linear_with_warmup", "`polynomial`"}};
  double power = 1;
  double end = 0;
  std::optional<int64_t> total_steps;
};

/// 1 - p: kLinear; 1 - sqrt(p): kSqrt; (1 + cos(pi p)) / 2: kCosine.
enum class Cooldown { kLinear, kSqrt, kCosine };
config::EnumNames enum_names(Cooldown);

/// Warm-up, stable, decay: after the warm-up learning_rate, and over the last d steps learning_rate * (end + (1 - end) f(p)),
/// where p goes from 0 to 1, f is `shape`, and d is `decay` or, up to 1, decay * total. Hu et al., MiniCPM (2024), section
/// 4; shapes: Hägele et al., Scaling laws and compute-optimal training beyond fixed training durations (2024).
struct WsdSchedule : WarmupSchedule {
  static constexpr std::string_view type_name = "wsd";
  static constexpr std::array common_names = {CommonName{"warmup_stable_decay", "`wsd`"},
                                              CommonName{"trapezoidal", "`wsd`"},
                                              CommonName{"constant_with_cooldown", "`wsd`"}};
  double decay = 0.2;
  Cooldown shape = Cooldown::kLinear;
  double end = 0;
  std::optional<int64_t> total_steps;
};

/// After the warm-up learning_rate * sqrt(warmup_steps / step). Vaswani et al. (2017), eq. 3.
struct InverseSqrtSchedule : WarmupSchedule {
  static constexpr std::string_view type_name = "inverse_sqrt";
  static constexpr std::array common_names = {CommonName{"inv_sqrt", "`inverse_sqrt`"},
                                              CommonName{"inverse_square_root", "`inverse_sqrt`"}};
  InverseSqrtSchedule() { warmup_steps = 4000; }
};

/// A number is a constant.
using ScheduleFactor =
    std::variant<double, NoamSchedule, TruncatedRsqrtSchedule, LinearWarmupSchedule, LinearDecaySchedule,
                 CosineDecaySchedule, StepDecaySchedule, ConstantSchedule, ConstantLearningRateSchedule,
                 LinearDecayLearningRateSchedule, SlantedTriangularSchedule, BertSchedule, CosineSchedule,
                 PolynomialSchedule, WsdSchedule, InverseSqrtSchedule>;

/// The product of the factors, each taken at (step - offset, total - offset).
struct ProductSchedule {
  static constexpr std::string_view type_name = "product";
  std::vector<ScheduleFactor> factors;
  double offset = 0;
  std::optional<int64_t> total_steps;
};

using Schedule =
    std::variant<double, NoamSchedule, TruncatedRsqrtSchedule, LinearWarmupSchedule, LinearDecaySchedule,
                 CosineDecaySchedule, StepDecaySchedule, ConstantSchedule, ConstantLearningRateSchedule,
                 LinearDecayLearningRateSchedule, SlantedTriangularSchedule, BertSchedule, CosineSchedule,
                 PolynomialSchedule, WsdSchedule, InverseSqrtSchedule, ProductSchedule>;

/// The rate at `step` of a run of `total` steps.
double schedule_value(const Schedule& schedule, int64_t step, int64_t total);
/// The product of all.
double schedule_value(const std::vector<Schedule>& schedules, int64_t step, int64_t total);
/// True when the rate depends on the length of the run and no total_steps is given.
bool needs_total(const std::vector<Schedule>& schedules);

/// Adafactor's decay rate 1 - (step + 1 - offset)^-exponent (Shazeer and Stern: Adafactor, 2018,
/// section 7.2): 0 at step 0. Here and below steps count from where the slots begin.
struct PowerDecay {
  static constexpr std::string_view type_name = "power";
  double exponent = 0.8;
  double offset = 0;
};

/// Adam's effective decay rate with bias correction: beta2 (1 - beta2^(t-1)) / (1 - beta2^t), t = step + 1.
struct AdamDecay {
  static constexpr std::string_view type_name = "adam";
  double beta2 = 0.999;
};

using DecayRate = std::variant<PowerDecay, AdamDecay, double>;

double decay_rate_value(const DecayRate& decay, int64_t step);
/// min(1 / sqrt(step + 1), 0.01); 0.05 of that where updates are not scaled by the size of the parameter.
double adafactor_learning_rate(int64_t step, bool multiply_by_parameter_scale);

void describe(config::Visitor& visit, NoamSchedule& options);
void describe(config::Visitor& visit, TruncatedRsqrtSchedule& options);
void describe(config::Visitor& visit, LinearWarmupSchedule& options);
void describe(config::Visitor& visit, LinearDecaySchedule& options);
void describe(config::Visitor& visit, CosineDecaySchedule& options);
void describe(config::Visitor& visit, StepDecaySchedule& options);
void describe(config::Visitor& visit, ConstantSchedule& options);
void describe(config::Visitor& visit, ConstantLearningRateSchedule& options);
void describe(config::Visitor& visit, LinearDecayLearningRateSchedule& options);
void describe(config::Visitor& visit, SlantedTriangularSchedule& options);
void describe(config::Visitor& visit, BertSchedule& options);
void describe(config::Visitor& visit, CosineSchedule& options);
void describe(config::Visitor& visit, PolynomialSchedule& options);
void describe(config::Visitor& visit, WsdSchedule& options);
void describe(config::Visitor& visit, InverseSqrtSchedule& options);
void describe(config::Visitor& visit, ProductSchedule& options);
void describe(config::Visitor& visit, PowerDecay& options);
void describe(config::Visitor& visit, AdamDecay& options);

}  // namespace mtf
