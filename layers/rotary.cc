#include "layers/rotary.h"

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

}  // namespace

void describe(config::Visitor& visit, LinearRotaryScaling& options) {
  visit("factor", options.factor, "all angles are smaller by it", config::required, config::positive);
}

Tensor LinearRotaryScaling::scaled(const Tensor& frequency) const {
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

Tensor Llama3RotaryScaling::scaled(const Tensor& frequency) const {
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

void describe_rotary(config::Visitor& visit, RotaryOptions& options) {
  visit("rotary", options.rotary, "turns queries and keys by their positions");
  visit("rotary_base", options.rotary_base, "of the wavelengths, from 2 pi to 2 pi base", config::positive);
  visit("rotary_scaling", options.rotary_scaling,
        "smaller angles, for longer rows than a model was trained on first; null: none");
  visit.check([&options](const config::Report& report) {
    if (options.rotary_scaling && !options.rotary)
      report.error("rotary_scaling", "there are no rotary positions to scale", "`rotary: true` beside it");
  });
}

Tensor rotate(const Tensor& x, const Tensor& position, const RotaryOptions& options) {
  const int64_t half = x.shape().dimension("d_kv").size / 2;
  Graph& graph = x.graph();
  const Dimension pairs{"d_kv", half};
  const Tensor index = cast(range(graph, pairs), DType::kFloat32);
  Tensor frequency =
      exp(scalar_multiply(index, -reproducible::log(options.rotary_base) / static_cast<double>(half)));
  if (options.rotary_scaling) frequency = (*options.rotary_scaling)->scaled(frequency);
  const Tensor angle = multiply(cast(position, DType::kFloat32), frequency, position.shape() + Shape{pairs});
  const Tensor c = cast(cos(angle), x.dtype()), s = cast(sin(angle), x.dtype());
  const Tensor first = slice(x, "d_kv", 0, half), second = slice(x, "d_kv", half, half);
  const Shape shape = first.shape();
  return concat({subtract(multiply(first, c, shape), multiply(second, s, shape)),
                 add(multiply(second, c, shape), multiply(first, s, shape))},
                "d_kv");
}

}  // namespace mtf
