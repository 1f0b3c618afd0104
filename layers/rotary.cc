#include "layers/rotary.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "engine/base/reproducible_math.h"
#include "engine/ops/binary.h"
#include "engine/ops/cast.h"
#include "engine/ops/concat.h"
#include "engine/ops/indexing.h"
#include "engine/ops/slice.h"
#include "engine/ops/unary.h"

namespace mtf {
namespace {

const config::Registration<RotaryScaling, LinearRotaryScaling> linear;
const config::Registration<RotaryScaling, Llama3RotaryScaling> llama3;
const config::Registration<RotaryScaling, YarnRotaryScaling> yarn;

}  // namespace

void describe(config::Visitor& visit, LinearRotaryScaling& options) {
  visit("factor", options.factor, "all angles are smaller by it", config::required, config::positive);
}

Tensor LinearRotaryScaling::scaled(const Tensor& frequency, double /*base*/) const {
  return scalar_multiply(frequency, 1 / factor);
}

void describe(config::Visitor& visit, Llama3RotaryScaling& options) {
  visit("factor", options.factor, "angles of slow turns are smaller by it", config::positive);
  visit("low_frequency", options.low_frequency,
        "turns in `original_length` positions up to which an angle is slow", config::positive);
  visit("high_frequency", options.high_frequency, "turns from which an angle stays as it is",
        config::positive);
  visit("original_length", options.original_length, "positions that the model was trained on first",
        config::positive);
  visit.check([&options](const config::Report& report) {
    if (options.high_frequency <= options.low_frequency)
      report.error("high_frequency", "it must be more than `low_frequency`",
                   "1 and 4, as Llama 3.1 has them");
  });
}

Tensor Llama3RotaryScaling::scaled(const Tensor& frequency, double /*base*/) const {
  Graph& graph = frequency.graph();
  const auto number = [&](double value) { return graph.constant(value, DType::kFloat32); };
  // The share of the angle as it is: 0 for slow turns, 1 for fast ones.
  const double width = high_frequency - low_frequency;
  const Tensor turns =
      scalar_multiply(frequency, static_cast<double>(original_length) / (2 * std::numbers::pi * width));
  const Tensor share = maximum(minimum(subtract(turns, number(low_frequency / width)), number(1)), number(0));
  const Tensor slow = scalar_multiply(frequency, 1 / factor);
  return add(slow, multiply(share, subtract(frequency, slow)));
}

void describe(config::Visitor& visit, YarnRotaryScaling& options) {
  visit("factor", options.factor, "angles of slow turns are smaller by it", config::required,
        config::positive);
  visit("original_length", options.original_length, "positions that the model was trained on first",
        config::required, config::positive);
  visit("beta_fast", options.beta_fast, "turns in `original_length` positions from which an angle stays",
        config::positive);
  visit("beta_slow", options.beta_slow, "turns up to which an angle is slow", config::positive);
  visit("attention_factor", options.attention_factor,
        "multiplies what is turned of queries and of keys; null: 0.1 log(factor) + 1", config::positive);
  visit("truncate", options.truncate, "the range between fast and slow pairs is widened to whole pairs");
  visit.check([&options](const config::Report& report) {
    if (options.beta_fast < options.beta_slow)
      report.error("beta_fast", "it must be `beta_slow` at least", "32 and 1, as in the paper");
  });
}

Tensor YarnRotaryScaling::scaled(const Tensor& frequency, double base) const {
  Graph& graph = frequency.graph();
  const Dimension& pairs = frequency.shape()[0];
  const auto number = [&](double value) { return graph.constant(value, DType::kFloat32); };
  // The number of the pair, not rounded, that turns so often.
  const auto pair_of = [&](double turns) {
    const double wavelengths = static_cast<double>(original_length) / (turns * 2 * std::numbers::pi);
    return static_cast<double>(pairs.size) * reproducible::log(wavelengths) / reproducible::log(base);
  };
  double first = pair_of(beta_fast), last = pair_of(beta_slow);
  if (truncate) {
    first = std::floor(first);
    last = std::ceil(last);
  }
  first = std::max(first, 0.0);
  last = std::min(last, static_cast<double>(2 * pairs.size - 1));
  const double width = first == last ? 0.001 : last - first;
  const Tensor place =
      scalar_multiply(subtract(cast(range(graph, pairs), DType::kFloat32), number(first)), 1 / width);
  const Tensor slow_share = maximum(minimum(place, number(1)), number(0));
  const Tensor slow = scalar_multiply(frequency, 1 / factor);
  return add(frequency, multiply(slow_share, subtract(slow, frequency)));
}

double YarnRotaryScaling::magnitude() const {
  return attention_factor.value_or(factor <= 1 ? 1 : 0.1 * reproducible::log(factor) + 1);
}

void describe_rotary(config::Visitor& visit, RotaryOptions& options) {
  visit("rotary", options.rotary, "turns queries and keys by their positions");
  visit("rotary_base", options.rotary_base, "of the wavelengths, from 2 pi to 2 pi base", config::positive);
  visit("rotary_size", options.rotary_size,
        "entries of a head, from its first on, that are turned (GPT-NeoX, Phi); null: all of them",
        config::positive);
  visit("rotary_scaling", options.rotary_scaling,
        "smaller angles, for longer rows than a model was trained on first; null: none");
  visit.check([&options](const config::Report& report) {
    if (options.rotary_scaling && !options.rotary)
      report.error("rotary_scaling", "there are no rotary positions to scale", "`rotary: true` beside it");
    if (options.rotary_scaling && options.rotary_scaling->get_if<YarnRotaryScaling>() &&
        options.rotary_base <= 1)
      report.error("rotary_base", "`rotary_scaling: {type: yarn}` needs a base of more than 1", "10000");
    if (options.rotary_size && !options.rotary)
      report.error("rotary_size", "there are no rotary positions", "`rotary: true` beside it");
    if (options.rotary_size.value_or(0) % 2 != 0)
      report.error("rotary_size", "entries are turned in pairs", "an even number");
  });
}

Tensor rotate(const Tensor& x, const Tensor& position, const RotaryOptions& options) {
  const int64_t size = x.shape().dimension("d_kv").size, turned = options.rotary_size.value_or(size),
                half = turned / 2;
  Graph& graph = x.graph();
  const Dimension pairs{"d_kv", half};
  const Tensor index = cast(range(graph, pairs), DType::kFloat32);
  Tensor frequency =
      exp(scalar_multiply(index, -reproducible::log(options.rotary_base) / static_cast<double>(half)));
  double magnitude = 1;
  if (options.rotary_scaling) {
    frequency = (*options.rotary_scaling)->scaled(frequency, options.rotary_base);
    magnitude = (*options.rotary_scaling)->magnitude();
  }
  const Tensor angle = multiply(cast(position, DType::kFloat32), frequency, position.shape() + Shape{pairs});
  const auto factor = [&](const Tensor& of_angle) {
    return cast(magnitude == 1 ? of_angle : scalar_multiply(of_angle, magnitude), x.dtype());
  };
  const Tensor c = factor(cos(angle)), s = factor(sin(angle));
  const Tensor first = slice(x, "d_kv", 0, half), second = slice(x, "d_kv", half, half);
  const Shape shape = first.shape();
  Tensors parts{subtract(multiply(first, c, shape), multiply(second, s, shape)),
                add(multiply(second, c, shape), multiply(first, s, shape))};
  if (turned < size) parts.push_back(slice(x, "d_kv", turned, size - turned));
  return concat(parts, "d_kv");
}

}  // namespace mtf
