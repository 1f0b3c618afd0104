#include "layers/experts/metrics.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/ops/binary.h"
#include "engine/ops/broadcast.h"
#include "engine/ops/cast.h"
#include "engine/ops/concat.h"
#include "engine/ops/reduce.h"
#include "engine/ops/reshape.h"
#include "engine/ops/slice.h"
#include "engine/ops/top_k.h"
#include "engine/ops/unary.h"
#include "layers/experts/counts.h"

namespace mtf {
namespace {

constexpr std::string_view kSums = "sums";
/// Choices with a report of their weight.
constexpr int64_t kMostWeights = 8;

/// 1 where x >= 0.
Tensor is_set(const Tensor& x) {
  return cast(greater_equal(x, x.graph().constant(0, x.dtype())), DType::kFloat32);
}

/// a / b, 0 where nothing was counted. Means over microbatches may be below 1.
Tensor share(const Tensor& a, const Tensor& b) {
  return divide(a, maximum(b, b.graph().constant(1e-6, b.dtype())));
}

/// Sums that are joined to one tensor, so that a layout reduces them at once.
class Sums {
 public:
  Sums(const RealTokens& tokens, const Tensor& counts)
      : tokens_(tokens), parts_{rename(counts, counts.shape()[0].name, std::string(kSums))} {}

  /// Adds the sum of x over all its dimensions; returns its index behind the counts.
  int64_t add(const Tensor& x) {
    parts_.push_back(reshape(reduce_sum(cast(x, DType::kFloat32), Shape{}), {{std::string(kSums), 1}}));
    return static_cast<int64_t>(parts_.size()) - 2;
  }
  /// The same for the real tokens. x: [tokens..]
  int64_t add_of_tokens(const Tensor& x) {
    return add(tokens_.mask ? multiply(cast(x, DType::kFloat32), tokens_.mask) : x);
  }
  Tensor joined() const { return concat(parts_, kSums); }

 private:
  const RealTokens& tokens_;
  Tensors parts_;
};

/// Reads what Sums has joined.
class Numbers {
 public:
  Numbers(const Tensor& sums, int64_t experts) : sums_(sums), experts_(experts) {}

  Tensor counts() const { return slice(sums_, kSums, 0, experts_); }
  Tensor operator[](int64_t index) const {
    return reshape(slice(sums_, kSums, experts_ + index, 1), Shape{});
  }

 private:
  Tensor sums_;
  int64_t experts_;
};

/// How large the logits are, and how close the last choice and the next expert: means over the microbatches.
void report_extents(Context& context, const MoeOptions& options, const Routing& routing,
                    const RealTokens& tokens) {
  const auto largest = [](const Tensor& x) { return reduce_max(abs(stop_gradient(x)), Shape{}); };
  context.report("router/max_logit", largest(routing.logits));
  if (routing.bias) context.report("router/bias_max", largest(routing.bias));
  const int64_t k = options.choices();
  if (k >= options.num_experts / options.expert_groups * options.groups_per_token) return;
  const Tensor ranked = stop_gradient(routing.ranked ? routing.ranked : routing.scores);
  const Tensor best = top_k(ranked, routing.experts, {std::string(kChoice), k + 1}).values;
  Tensor gaps = subtract(slice(best, kChoice, k - 1, 1), slice(best, kChoice, k, 1));
  if (tokens.mask) {
    const Tensor is_token = greater(tokens.mask, gaps.graph().constant(0, tokens.mask.dtype()));
    gaps =
        where(broadcast(is_token, gaps.shape()), gaps, gaps.graph().constant(1, gaps.dtype(), gaps.shape()));
  }
  context.report("router/min_gap", reduce_min(gaps, Shape{}));
}

}  // namespace

void report_routing(Context& context, const MoeOptions& options, const Routing& routing,
                    const ExpertPlaces& places, const RealTokens& tokens) {
  if (!context.training()) return;
  const Shape& shape = places.groups().tokens();
  const Dimension& experts = routing.experts;
  Sums sums(tokens, count_choices(routing.attempted, experts, Shape{}, DType::kFloat32));
  const Tensor placed = is_set(places.groups().part(places.slots().slot));
  const Tensor ones = placed.graph().constant(1, DType::kFloat32, shape);
  const Tensor scores = stop_gradient(routing.scores), logs = log(scalar_add(scores, 1e-9));
  // Means over microbatches are rounded: the sum of what is dropped is 0 where nothing is.
  const int64_t dropped = sums.add(subtract(is_set(routing.attempted), placed)),
                real = sums.add_of_tokens(ones), routed = sums.add_of_tokens(reduce_max(placed, shape)),
                entropy = sums.add_of_tokens(negative(reduce_sum(multiply(scores, logs), shape)));
  std::vector<int64_t> weights;
  for (int64_t i = 0; i < std::min(options.choices(), kMostWeights); ++i) {
    if (options.gating == Gating::kExpertSelection) break;
    const Tensor weight = slice(stop_gradient(routing.weights), kChoice, i, 1);
    weights.push_back(sums.add_of_tokens(reduce_sum(weight, shape)));
  }
  const double all_places =
      places.sorted() ? 0 : static_cast<double>(places.size() * places.groups().rows().size());
  context.report(sums.joined(), [=](const Tensor& joined) {
    const Numbers of(joined, experts.size);
    const Tensor counts = of.counts(), attempted = reduce_sum(counts, Shape{});
    const auto load = [&](const Tensor& count) {
      return scalar_multiply(share(count, attempted), static_cast<double>(experts.size));
    };
    std::map<std::string, Tensor> numbers{
        {"experts/load", share(counts, attempted)},
        {"experts/max_load", load(reduce_max(counts, Shape{}))},
        {"experts/min_load", load(reduce_min(counts, Shape{}))},
        {"experts/unused",
         reduce_sum(cast(equal(counts, counts.graph().constant(0)), DType::kFloat32), Shape{})},
        {"experts/unrouted", share(subtract(of[real], of[routed]), of[real])},
        {"experts/dropped", share(of[dropped], attempted)},
        {"router/entropy", share(of[entropy], of[real])}};
    if (all_places > 0)
      numbers["experts/fill"] = scalar_multiply(subtract(attempted, of[dropped]), 1 / all_places);
    for (size_t i = 0; i < weights.size(); ++i)
      numbers[fmt::format("router/weight_{}", i + 1)] = share(of[weights[i]], of[real]);
    return numbers;
  });
  report_extents(context, options, routing, tokens);
}

}  // namespace mtf
