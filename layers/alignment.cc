#include "layers/alignment.h"

#include <fmt/format.h>

#include "engine/ops/binary.h"
#include "engine/ops/cast.h"
#include "engine/ops/einsum.h"
#include "engine/ops/indexing.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"

namespace mtf {
namespace {

/// What is added to weights, so that their logarithm is finite.
constexpr double kSmallestWeight = 1e-6;

/// float32 [heads..]: 1 / count for the first `count` heads, else 0.
Tensor shares_of_heads(Graph& graph, const Shape& heads, int64_t count) {
  Tensor index = graph.constant(0, DType::kInt32, heads);
  for (const Dimension& d : heads) {
    const Tensor of_others = scalar_multiply(index, static_cast<double>(d.size));
    index = add(of_others, range(graph, d), heads);
  }
  const Tensor counts = less(index, graph.constant(static_cast<double>(count), DType::kInt32));
  return scalar_multiply(cast(counts, DType::kFloat32), 1 / static_cast<double>(count));
}

/// The mean over some heads of weights [batch.., heads.., length, memory_length].
Tensor mean_of_heads(const Tensor& weights, const Shape& heads, const std::optional<int64_t>& wanted) {
  const int64_t count = wanted.value_or(heads.size());
  if (count > heads.size())
    throw Error(ErrorKind::kConfig,
                fmt::format("`model.alignment.heads` is {}, and the attention has {}", count, heads.size()),
                "a smaller number, or null for all heads");
  if (heads.rank() == 0) return weights;
  return einsum({weights, shares_of_heads(weights.graph(), heads, count)}, weights.shape() - heads);
}

}  // namespace

void add_alignment(Context& context, AttentionInputs inputs, AttentionOptions options,
                   const Shape& query_heads, Alignment& alignment) {
  inputs.noise = {};
  options.extra_logit.reset();
  const Tensor weights = cast(attention_weights(inputs, options), DType::kFloat32);
  alignment.weights = mean_of_heads(weights, query_heads, alignment.heads);
  if (!alignment.guide) return;
  const Tensor log_weights = log(scalar_add(alignment.weights, kSmallestWeight));
  const Tensor agreement = reduce_sum(multiply(alignment.guide, log_weights), Shape{});
  context.add_loss("alignment", scalar_multiply(agreement, -alignment.loss_scale));
}

}  // namespace mtf
