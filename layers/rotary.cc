#include "layers/rotary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "engine/base/error.h"
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
const config::Registration<RotaryScaling, LongRotaryScaling> longrope;

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

void describe(config::Visitor& visit, LongRotaryScaling& options) {
  visit("factor", options.factor, "the longest row over `original_length`", config::required,
        config::positive);
  visit("original_length", options.original_length, "positions that the model was trained on first",
        config::required, config::positive);
  visit("short_factor", options.short_factor,
        "the angle of each pair of entries is smaller by its number, in rows up to `original_length`",
        config::required, config::positive);
  visit("long_factor", options.long_factor, "the same in longer rows", config::required, config::positive);
  visit("attention_factor", options.attention_factor,
        "multiplies what is turned of queries and of keys; null: the root of 1 + log(factor) / "
        "log(original_length)",
        config::positive);
  visit("long", options.is_long,
        "rows of all lengths have `long_factor`, in training and in decoding; false: `short_factor`");
  visit.check([&options](const config::Report& report) {
    if (options.short_factor.size() != options.long_factor.size())
      report.error("long_factor",
                   fmt::format("it has {} numbers, and `short_factor` {}", options.long_factor.size(),
                               options.short_factor.size()),
                   "one for each pair of entries in both");
    if (!options.attention_factor && options.factor > 1 && options.original_length == 1)
      report.error("attention_factor", "1 has no logarithm by which to divide", "a number");
  });
}

Tensor LongRotaryScaling::scaled(const Tensor& frequency, double /*base*/) const {
  const Dimension& pairs = frequency.shape()[0];
  Tensors shares;
  for (const double divisor : is_long ? long_factor : short_factor)
    shares.push_back(frequency.graph().constant(1 / divisor, DType::kFloat32, Shape{{pairs.name, 1}}));
  return multiply(frequency, shares.size() == 1 ? shares[0] : concat(shares, pairs.name));
}

double LongRotaryScaling::magnitude() const {
  if (attention_factor || factor <= 1) return attention_factor.value_or(1);
  return std::sqrt(1 + reproducible::log(factor) / reproducible::log(static_cast<double>(original_length)));
}

std::optional<int64_t> LongRotaryScaling::longest_row() const {
  return is_long ? std::nullopt : std::optional(original_length);
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

void check_rotary_row(const RotaryOptions& options, int64_t positions, std::string_view layer) {
  if (!options.rotary || !options.rotary_scaling) return;
  const std::optional<int64_t> longest = (*options.rotary_scaling)->longest_row();
  if (longest && positions > *longest)
    throw Error(ErrorKind::kConfig,
                fmt::format("{} has rows of {} tokens, and its rotary positions are those of up to {}", layer,
                            positions, *longest),
                "`long: true` in `rotary_scaling`, or a shorter `data.sequence_length`");
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
