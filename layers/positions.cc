#include "layers/positions.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "engine/base/reproducible_math.h"
#include "engine/ops/binary.h"
#include "engine/ops/cast.h"
#include "engine/ops/indexing.h"
#include "engine/ops/unary.h"

namespace mtf {

config::EnumNames enum_names(Positions) {
  return {{"learned", Positions::kLearned},
          {"sinusoid", Positions::kSinusoid},
          {"sinusoid_hf", Positions::kSinusoidHuggingFace},
          {"none", Positions::kNone}};
}

config::CommonNames common_names(Positions) {
  static constexpr std::string_view kRotary = "`none`, with `rotary: true` of SelfAttention";
  static constexpr std::string_view kRelative = "`none`, with `relative_attention_type` of SelfAttention";
  static constexpr std::string_view kAlibi = "`none`, with `alibi: true` of SelfAttention";
  static constexpr std::array names = {CommonName{"rope", kRotary},
                                       CommonName{"rotary", kRotary},
                                       CommonName{"relative", kRelative},
                                       CommonName{"alibi", kAlibi},
                                       CommonName{"sinusoidal", "`sinusoid`"},
                                       CommonName{"sincos", "`sinusoid`"},
                                       CommonName{"absolute", "`learned`"},
                                       CommonName{"embedding", "`learned`"}};
  return names;
}

namespace {

/// int32 positions, of which 0 counts as `first`.
Tensor counted_from(int64_t first, const Tensor& position) {
  if (first == 0) return position;
  return add(position, position.graph().constant(static_cast<double>(first), position.dtype()));
}

}  // namespace

Tensor learned_positions(Context& context, const Tensor& position, const Dimension& length,
                         int64_t max_length, const Dimension& model, int64_t first) {
  if (!position && length.size + first > max_length) {
    throw Error(ErrorKind::kConfig,
                fmt::format("rows have {} tokens, but `model.max_length` is {}{}", length.size, max_length,
                            first > 0 ? fmt::format(", of which `first_position` leaves out {}", first) : ""),
                "a larger `model.max_length`, or a smaller `data.sequence_length`");
  }
  const Dimension rows{"max_length", max_length};
  const Tensor table = context.variable("positional_embedding", {rows, model}, Initializer::normal(1),
                                        std::sqrt(static_cast<double>(model.size)));
  return gather(table, counted_from(first, position ? position : range(context.graph(), length)), rows.name);
}

bool are_sinusoids(Positions positions) {
  return positions == Positions::kSinusoid || positions == Positions::kSinusoidHuggingFace;
}

Tensor sinusoid_positions(Context& context, Positions kind, const Tensor& position, const Dimension& length,
                          const Dimension& model, int64_t first) {
  if (model.size % 2 != 0) {
    throw Error(ErrorKind::kConfig, fmt::format("sinusoid positions cannot have {} entries", model.size),
                "an even `d_model`");
  }
  // Entry i of the first half is a sine, of the second half the cosine of the same angle; no dimension is
  // cut, so that any of them may be split.
  Graph& graph = context.graph();
  const int64_t half = model.size / 2;
  const int64_t steps = kind == Positions::kSinusoidHuggingFace ? half : std::max<int64_t>(half - 1, 1);
  const double step = -reproducible::log(1e4) / static_cast<double>(steps);
  const Tensor entry = range(graph, model);
  const Tensor pair = modulo(entry, graph.constant(static_cast<double>(half), DType::kInt32));
  const Tensor frequency = exp(scalar_multiply(cast(pair, DType::kFloat32), step));
  // A table is as long as the rows at hand: a rule for `max_length`, which is as long as learned positions, is not meant. The
  // vectors of fewer positions than it has rows need none.
  const bool in_table = position && position.shape().size() >= length.size;
  const Dimension rows = in_table ? Dimension{std::string(kSinusoidLength), length.size} : length;
  const Tensor place =
      cast(counted_from(first, position && !in_table ? position : range(graph, rows)), DType::kFloat32);
  const Tensor angle = multiply(place, frequency, place.shape() + model);
  const Tensor is_sine = less(entry, graph.constant(static_cast<double>(half), DType::kInt32));
  const Tensor vectors = cast(where(is_sine, sin(angle), cos(angle)), context.precision().activation);
  return in_table ? gather(vectors, position, rows.name) : vectors;
}

}  // namespace mtf
