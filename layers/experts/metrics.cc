#include "layers/experts/metrics.h"

#include <fmt/format.h>

#include "engine/ops/binary.h"
#include "engine/ops/cast.h"
#include "engine/ops/reduce.h"
#include "engine/ops/slice.h"
#include "engine/ops/unary.h"
#include "layers/experts/counts.h"

namespace mtf {
namespace {

Tensor total(const Tensor& x) { return reduce_sum(x, Shape{}); }

/// 1 where x >= 0.
Tensor is_set(const Tensor& x) {
  return cast(greater_equal(x, x.graph().constant(0, x.dtype())), DType::kFloat32);
}

/// a / max(b, 1)
Tensor share(const Tensor& a, const Tensor& b) {
  return divide(a, maximum(b, b.graph().constant(1, b.dtype())));
}

/// The mean over the real tokens. x: [tokens..]
Tensor token_mean(const Tensor& x, const RealTokens& tokens) {
  if (!tokens.mask) return reduce_mean(x, Shape{});
  const Tensor weights = cast(tokens.mask, x.dtype());
  return share(total(multiply(x, weights)), total(weights));
}

}  // namespace

void report_routing(Context& context, const MoeOptions& options, const Routing& routing,
                    const ExpertPlaces& places, const RealTokens& tokens) {
  if (!context.training()) return;
  const Shape& shape = places.groups().tokens();
  const auto report = [&](const std::string& name, const Tensor& value) {
    context.report(name, stop_gradient(value));
  };
  const Tensor counts = count_choices(routing.attempted, routing.experts, Shape{}, DType::kFloat32);
  const Tensor attempted = total(is_set(routing.attempted));
  report("experts/max_load", scalar_multiply(share(reduce_max(counts, Shape{}), attempted),
                                             static_cast<double>(options.num_experts)));
  report("experts/unused", total(cast(equal(counts, counts.graph().constant(0)), DType::kFloat32)));
  const Tensor placed = is_set(places.groups().part(places.slots().slot));
  const Tensor kept = total(placed);
  report("experts/unrouted", scalar_add(negative(token_mean(reduce_max(placed, shape), tokens)), 1));
  report("experts/dropped", share(subtract(attempted, kept), attempted));
  if (!places.sorted()) {
    const double all = static_cast<double>(places.size() * places.groups().rows().size());
    report("experts/fill", scalar_multiply(kept, 1 / all));
  }
  const Tensor logs = log(scalar_add(routing.scores, 1e-9));
  report("router/entropy", token_mean(negative(reduce_sum(multiply(routing.scores, logs), shape)), tokens));
  report("router/max_logit", reduce_max(abs(routing.logits), Shape{}));
  for (int64_t i = 0; i < std::min<int64_t>(options.choices(), 8); ++i) {
    const Tensor weights = reduce_sum(slice(routing.weights, std::string(kChoice), i, 1), shape);
    if (options.gating != Gating::kExpertSelection)
      report(fmt::format("router/weight_{}", i + 1), token_mean(weights, tokens));
  }
}

}  // namespace mtf
