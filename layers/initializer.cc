#include "layers/initializer.h"

#include <algorithm>
#include <cmath>

namespace mtf {
namespace {

struct MakeInitializer {
  double fan_in, fan_out;

  Initializer operator()(const VarianceScaling& options) const {
    const double fan = options.mode == Fan::kIn    ? fan_in
                       : options.mode == Fan::kOut ? fan_out
                                                   : (fan_in + fan_out) / 2;
    const double variance = options.scale / std::max(1.0, fan);
    return options.distribution == Spread::kNormal ? Initializer::truncated_normal(std::sqrt(variance))
                                                   : Initializer::uniform(std::sqrt(3 * variance));
  }
  Initializer operator()(const GlorotUniform&) const {
    return Initializer::uniform(std::sqrt(6 / (fan_in + fan_out)));
  }
  Initializer operator()(const NormalInitializer& options) const {
    return Initializer::normal(options.stddev);
  }
  Initializer operator()(const TruncatedNormalInitializer& options) const {
    return Initializer::truncated_normal(options.stddev);
  }
  Initializer operator()(const UniformInitializer& options) const {
    return Initializer::uniform(options.limit);
  }
  Initializer operator()(const ConstantInitializer& options) const {
    return Initializer::constant(options.value);
  }
  Initializer operator()(const ZerosInitializer&) const { return Initializer::zeros(); }
  Initializer operator()(const OnesInitializer&) const { return Initializer::ones(); }
};

}  // namespace

void describe(config::Visitor& visit, VarianceScaling& options) {
  visit("scale", options.scale, "variance times fan", config::positive);
  visit("mode", options.mode, "fan: elements summed, elements made, or their mean");
  visit("distribution", options.distribution, "normal (redrawn beyond two standard deviations) or uniform");
}
void describe(config::Visitor&, GlorotUniform&) {}
void describe(config::Visitor& visit, NormalInitializer& options) {
  visit("stddev", options.stddev, "standard deviation", config::non_negative);
}
void describe(config::Visitor& visit, TruncatedNormalInitializer& options) {
  visit("stddev", options.stddev, "standard deviation before values beyond two of them are redrawn",
        config::non_negative);
}
void describe(config::Visitor& visit, UniformInitializer& options) {
  visit("limit", options.limit, "values lie between -limit and limit", config::non_negative);
}
void describe(config::Visitor& visit, ConstantInitializer& options) {
  visit("value", options.value, "every element");
}
void describe(config::Visitor&, ZerosInitializer&) {}
void describe(config::Visitor&, OnesInitializer&) {}

Initializer make_initializer(const InitializerOptions& options, int64_t fan_in, int64_t fan_out) {
  return std::visit(MakeInitializer{static_cast<double>(fan_in), static_cast<double>(fan_out)}, options);
}

}  // namespace mtf
