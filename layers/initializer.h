// How initial values of weights are chosen in a configuration.
//
//   kernel_initializer: zeros
//   kernel_initializer: {type: normal, stddev: 0.02}
#pragma once

#include <cstdint>
#include <string_view>
#include <variant>

#include "engine/config/schema.h"
#include "engine/graph/variable.h"

namespace mtf {

enum class Fan { kIn, kOut, kAverage };
inline config::EnumNames enum_names(Fan) {
  return {{"fan_in", Fan::kIn}, {"fan_out", Fan::kOut}, {"fan_avg", Fan::kAverage}};
}
enum class Spread { kNormal, kUniform };
inline config::EnumNames enum_names(Spread) {
  return {{"normal", Spread::kNormal}, {"uniform", Spread::kUniform}};
}

/// Variance scale / fan: normal redrawn beyond two standard deviations (without a correction), or uniform.
struct VarianceScaling {
  static constexpr std::string_view type_name = "variance_scaling";
  double scale = 1;
  Fan mode = Fan::kIn;
  Spread distribution = Spread::kNormal;
};
/// Uniform on +-sqrt(6 / (fan_in + fan_out)). Glorot and Bengio, AISTATS 2010, eq. 16.
struct GlorotUniform {
  static constexpr std::string_view type_name = "glorot_uniform";
};
struct NormalInitializer {
  static constexpr std::string_view type_name = "normal";
  double stddev = 1;
};
struct TruncatedNormalInitializer {
  static constexpr std::string_view type_name = "truncated_normal";
  double stddev = 1;
};
struct UniformInitializer {
  static constexpr std::string_view type_name = "uniform";
  double limit = 1;
};
struct ConstantInitializer {
  static constexpr std::string_view type_name = "constant";
  double value = 0;
};
struct ZerosInitializer {
  static constexpr std::string_view type_name = "zeros";
};
struct OnesInitializer {
  static constexpr std::string_view type_name = "ones";
};

using InitializerOptions =
    std::variant<VarianceScaling, GlorotUniform, NormalInitializer, TruncatedNormalInitializer,
                 UniformInitializer, ConstantInitializer, ZerosInitializer, OnesInitializer>;

void describe(config::Visitor& visit, VarianceScaling& options);
void describe(config::Visitor& visit, GlorotUniform& options);
void describe(config::Visitor& visit, NormalInitializer& options);
void describe(config::Visitor& visit, TruncatedNormalInitializer& options);
void describe(config::Visitor& visit, UniformInitializer& options);
void describe(config::Visitor& visit, ConstantInitializer& options);
void describe(config::Visitor& visit, ZerosInitializer& options);
void describe(config::Visitor& visit, OnesInitializer& options);

/// The distribution for a kernel: `fan_in` is the number of elements that are summed, `fan_out` of those that
/// are made.
Initializer make_initializer(const InitializerOptions& options, int64_t fan_in, int64_t fan_out);

}  // namespace mtf
