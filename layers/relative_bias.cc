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
void check_buckets(const RelativeBiasOptions& options, const AttentionOptions& mixing) {
  const int64_t buckets = options.relative_attention_num_buckets;
  const int64_t factor = mixing.bidirectional ? 4 : 2, most = factor * (mixing.max_distance - 1);
  if (buckets % factor == 0 && buckets <= most) return;
  throw Error(ErrorKind::kConfig, options.buckets_mark,
              fmt::format("`relative_attention_num_buckets` cannot be {}", buckets),
              fmt::format("a multiple of {} up to {}", factor, most));
}

}  // namespace

void describe_relative_bias(config::Visitor& visit, RelativeBiasOptions& options, const std::string& type) {
  visit("relative_attention_type", options.relative_attention_type, type);
  visit("relative_attention_num_buckets", options.relative_attention_num_buckets,
        "classes of distances: near ones apart, far ones together, from 128 on alike; a multiple of 4 up to "
        "508, or of 2 up to 254 where later tokens are not seen",
        config::at_least(2));
  visit.check([&options](const config::Report& report) {
    options.buckets_mark = report.mark("relative_attention_num_buckets");
  });
}

Tensor RelativeBias::table(Context& context, const Shape& heads, const AttentionOptions& mixing) const {
  const RelativeAttention type = options.relative_attention_type;
  if (type == RelativeAttention::kNone) return {};
  check_buckets(options, mixing);
  const Shape shape = heads + Shape{{"buckets", options.relative_attention_num_buckets}};
  Tensor own;
  Tensor& result = type == RelativeAttention::kBiasShared
                       ? context.sequence(variable).shared[variable + shape.to_string()]
                       : own;
  if (!result) result = context.variable(variable, shape, glorot(shape));
  return result;
}

}  // namespace mtf
