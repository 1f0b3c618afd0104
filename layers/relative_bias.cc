#include "layers/relative_bias.h"

#include <fmt/format.h>

#include <cmath>

namespace mtf {
namespace {

/// Fan-in and fan-out are the last two dimensions; those before them are a field that both see.
Initializer glorot(const Shape& shape) {
  const int rank = shape.rank();
  const auto size = [&](int axis) { return axis < 0 ? 1.0 : static_cast<double>(shape[axis].size); };
  double field = 1;
  for (int axis = 0; axis < rank - 2; ++axis) field *= size(axis);
  const double in = rank == 1 ? size(0) : size(rank - 2);
  return Initializer::uniform(std::sqrt(6 / (field * (in + size(rank - 1)))));
}

/// Half of each direction's buckets are for one distance each, and those end before the farthest one.
void check_buckets(int64_t buckets, const AttentionOptions& mixing) {
  const int64_t factor = mixing.bidirectional ? 4 : 2, most = factor * (mixing.max_distance - 1);
  if (buckets % factor == 0 && buckets <= most) return;
  throw Error(ErrorKind::kConfig, fmt::format("`relative_attention_num_buckets` cannot be {}", buckets),
              fmt::format("a multiple of {} up to {}", factor, most));
}

}  // namespace

Tensor RelativeBias::table(Context& context, const Shape& heads, const AttentionOptions& mixing) const {
  if (type == RelativeAttention::kNone) return {};
  check_buckets(buckets, mixing);
  const Shape shape = heads + Shape{{"buckets", buckets}};
  Tensor own;
  Tensor& result = type == RelativeAttention::kBiasShared
                       ? context.sequence(variable).shared[variable + shape.to_string()]
                       : own;
  if (!result) result = context.variable(variable, shape, glorot(shape));
  return result;
}

}  // namespace mtf
