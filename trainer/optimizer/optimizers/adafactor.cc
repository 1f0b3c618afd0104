// Adafactor (Shazeer and Stern 2018, algorithms 4 and 5 with relative steps).
#include "engine/ops/adafactor.h"

#include <fmt/format.h>

#include <algorithm>

#include "trainer/optimizer/optimizer.h"
#include "trainer/optimizer/schedules.h"

namespace mtf {
namespace {

struct Adafactor final : OptimizerOptions {
  static constexpr std::string_view type_name = "adafactor";
  bool multiply_by_parameter_scale = true;
  DecayRate decay_rate = PowerDecay{};
  double beta1 = 0;
  double clipping_threshold = 1;  ///< 0: none
  bool factored = true;
  double epsilon1 = 1e-30;
  double epsilon2 = 1e-3;
  int64_t min_dim_size_to_factor = 128;
  std::vector<std::string> stacked_dim_names;
  std::vector<std::string> exclude_from_parameter_scale;

  Tensor update(UpdateContext& context, const WeightUpdate& w) const override {
    const AdafactorOptions options = options_of(w.variable.name);
    const auto named_slots = adafactor_slots(w.variable.shape, options);
    // The means of squares, of which the first is one, begin together.
    const Tensor rate =
        context.scalar_of_slot(w.variable.name + named_slots.front().first, "optimizer/decay_rate",
                               [rate = decay_rate](int64_t step) { return decay_rate_value(rate, step); });
    std::vector<const Variable*> slots;
    Tensors values;
    for (const auto& [suffix, shape] : named_slots) {
      const bool is_mean = suffix == "_slot_m";
      slots.push_back(&context.slot(w.variable.name + suffix, shape,
                                    is_mean ? SlotValues::kSigned : SlotValues::kPositive));
      values.push_back(context.read(*slots.back()));
    }
    const AdafactorUpdate u =
        adafactor_update(w.weight, w.gradient, values, context.learning_rate(), rate, options);
    for (size_t i = 0; i < slots.size(); ++i) context.assign(*slots[i], u.slots[i]);
    return context.decayed(u.weight, w);
  }
  std::optional<double> own_learning_rate(int64_t step) const override {
    return adafactor_learning_rate(step, multiply_by_parameter_scale);
  }
  bool is_elementwise() const override { return false; }

 private:
  AdafactorOptions options_of(const std::string& variable) const {
    const bool scaled = std::ranges::none_of(exclude_from_parameter_scale, [&](const std::string& part) {
      return variable.find(part) != std::string::npos;
    });
    return {.multiply_by_parameter_scale = multiply_by_parameter_scale && scaled,
            .beta1 = beta1,
            .clipping_threshold = clipping_threshold > 0 ? std::optional(clipping_threshold) : std::nullopt,
            .factored = factored,
            .epsilon1 = epsilon1,
            .epsilon2 = epsilon2,
            .min_dim_size_to_factor = min_dim_size_to_factor,
            .stacked_dim_names = stacked_dim_names};
  }
};

void describe(config::Visitor& visit, Adafactor& options) {
  visit("multiply_by_parameter_scale", options.multiply_by_parameter_scale,
        "steps are relative to the root mean square of the weight");
  visit("decay_rate", options.decay_rate, "decay of the mean of squared gradients");
  visit("beta1", options.beta1, "decay of the mean of updates; 0: no such slot", kDecayRate);
  visit("clipping_threshold", options.clipping_threshold,
        "updates are scaled down so that their root mean square is at most this; 0: not",
        config::non_negative, config::off_at("0"));
  visit("factored", options.factored, "second moments as outer products of row and column means");
  visit("epsilon1", options.epsilon1, "added to squared gradients", config::non_negative);
  visit("epsilon2", options.epsilon2, "least size of a weight for the step", config::positive);
  visit("min_dim_size_to_factor", options.min_dim_size_to_factor,
        "the two largest dimensions are factored when both have at least this size", config::positive);
  visit("stacked_dim_names", options.stacked_dim_names, "dimensions that stack independent weights");
  visit("exclude_from_parameter_scale", options.exclude_from_parameter_scale,
        "parts of names of variables whose steps are not relative");
  describe_common(visit, options);
  visit.check([&options](const config::Report& report) {
    const auto* const rate = std::get_if<double>(&options.decay_rate);
    if (rate != nullptr && !(*rate >= 0 && *rate < 1))
      report.error("decay_rate", fmt::format("`optimizer.decay_rate` is {}", *rate),
                   "at least 0 and below 1");
  });
}

const config::Registration<OptimizerOptions, Adafactor> adafactor;

}  // namespace
}  // namespace mtf
