#include "layers/experts/router.h"

#include <limits>

#include "engine/graph/matmul_precision_scope.h"
#include "engine/ops/binary.h"
#include "engine/ops/broadcast.h"
#include "engine/ops/cast.h"
#include "engine/ops/einsum.h"
#include "engine/ops/indexing.h"
#include "engine/ops/random.h"
#include "engine/ops/reduce.h"
#include "engine/ops/reshape.h"
#include "engine/ops/softmax.h"
#include "engine/ops/top_k.h"
#include "engine/ops/unary.h"
#include "layers/dropout.h"
#include "layers/experts/counts.h"
#include "layers/initializer.h"

namespace mtf {
namespace {

std::string name_of(Gating gating) {
  for (const config::EnumName& word : enum_names(gating)) {
    if (word.value == static_cast<int64_t>(gating)) return word.name;
  }
  return {};
}

/// weights / (their sum + epsilon)
Tensor normalized(const Tensor& weights, double epsilon) {
  const Shape tokens = without(weights.shape(), kChoice);
  return divide(weights, scalar_add(reduce_sum(weights, tokens), epsilon), weights.shape());
}

/// The largest entries along `experts` of each token.
TopKResult best_experts(const Tensor& scores, const Dimension& experts, int64_t k) {
  return top_k(scores, experts, {std::string(kChoice), k});
}

/// The weights as priorities, through which no gradient passes.
Tensor priority_of(const Routing& routing) { return cast(stop_gradient(routing.weights), DType::kFloat32); }

}  // namespace

Router::Router(Context& context, const MoeOptions& options, const TokenGroups& groups, const Tensor& tokens)
    : context_(context), options_(options), groups_(groups), tokens_(tokens) {}

DType Router::type() const {
  return context_.precision().activation == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
}

/// Where texts are written or scored nothing is drawn: draws depend on the texts beside one.
SwitchPolicy Router::switch_policy() const {
  if (context_.training()) return options_.switch_policy_train;
  const bool draws = options_.switch_policy_eval == SwitchPolicy::kSample;
  return draws && context_.keeps_tokens() ? SwitchPolicy::kArgmax : options_.switch_policy_eval;
}

/// The input of the router with the noise of training.
Tensor Router::noisy(const Tensor& x) const {
  const Gating gating = options_.gating;
  if (!context_.training() || gating == Gating::kTop2 || gating == Gating::kTopN || gating == Gating::kTopK)
    return x;
  if (switch_policy() == SwitchPolicy::kInputDropout && gating != Gating::kNtlb)
    return dropout(x, options_.switch_dropout);
  if (switch_policy() != SwitchPolicy::kInputJitter) return x;
  const double jitter = options_.switch_jitter;
  return multiply(x, random_uniform(x.graph(), x.shape(), 1 - jitter, 1 + jitter, x.dtype()));
}

/// The sum over the model's dimension is made by one position: where layouts split it, x is gathered before.
Tensor Router::logits(const Tensor& x, const Dimension& model) const {
  const MatmulPrecisionScope precision(context_.graph(), MatmulPrecision::kFull);
  const Dimension experts{"expert_unsplit", options_.num_experts}, whole{"router_input", model.size};
  const Tensor kernel = context_.variable("kernel", {model, experts},
                                          make_initializer(InitializerOptions(), model.size, 1), 1, type());
  const Tensor input = noisy(rename(cast(x, type()), model.name, whole.name));
  return einsum({input, rename(kernel, model.name, whole.name)}, groups_.tokens() + experts);
}

Routing Router::operator()(const Tensor& x, const Dimension& model) const {
  const auto scope = context_.graph().scope(name_of(options_.gating) + "_gating");
  Routing routing;
  routing.logits = logits(x, model);
  routing.experts = {"expert_unsplit", options_.num_experts};
  const bool sigmoids = options_.is_top_k() && options_.score == Score::kSigmoid;
  routing.scores = sigmoids ? sigmoid(routing.logits) : softmax(routing.logits, routing.experts.name);
  switch (options_.gating) {
    case Gating::kTop2:
    case Gating::kTopN:
      choose_top_n(routing);
      break;
    case Gating::kSwitch:
    case Gating::kSwitchMax:
      choose_switch(routing);
      break;
    case Gating::kNtlb:
      choose_ntlb(routing);
      break;
    case Gating::kExpertSelection:
      choose_expert_selection(routing);
      break;
    case Gating::kTopK:
      choose_top_k(routing);
      break;
  }
  return routing;
}

Tensor Router::attempted(const Tensor& expert, const Tensor& counts) const {
  Graph& graph = expert.graph();
  Tensor counted = counts;
  if (tokens_) {
    const Tensor is_token = broadcast(greater(tokens_, graph.constant(0, tokens_.dtype())), expert.shape());
    counted = counted ? logical_and(counted, is_token) : is_token;
  }
  return counted ? where(counted, expert, graph.constant(-1, DType::kInt32, expert.shape())) : expert;
}

/// Which choices count by the policy for those behind the first: bool [tokens.., choice]; null: all.
Tensor Router::counting_choices(const Routing& routing) const {
  Graph& graph = context_.graph();
  const bool training = context_.training();
  SecondPolicy policy = training ? options_.second_policy_train : options_.second_policy_eval;
  const bool draws = training || (options_.parity && !context_.keeps_tokens());
  if (policy == SecondPolicy::kRandom && !draws) policy = SecondPolicy::kAll;
  if (policy == SecondPolicy::kAll) return {};
  const Tensor& weights = routing.weights;
  const Dimension& choice = weights.shape().dimension(kChoice);
  const Tensor first =
      broadcast(equal(range(graph, choice), graph.constant(0, DType::kInt32)), weights.shape());
  const double threshold = training ? options_.second_threshold_train : options_.second_threshold_eval;
  switch (policy) {
    case SecondPolicy::kThreshold:
      return logical_or(first, greater(weights, graph.constant(threshold, weights.dtype())));
    case SecondPolicy::kRandom: {
      const Tensor drawn = random_uniform(graph, weights.shape(), 0, 1, weights.dtype());
      return logical_or(first, less(drawn, scalar_multiply(weights, 1 / std::max(threshold, 1e-9))));
    }
    case SecondPolicy::kNone:
    case SecondPolicy::kAll:
      break;
  }
  return first;
}

/// Shazeer et al., Outrageously Large Neural Networks, 2017, and Lepikhin et al., GShard, 2020.
void Router::choose_top_n(Routing& routing) const {
  const TopKResult top = best_experts(routing.scores, routing.experts, options_.choices());
  routing.chosen = top.indices;
  routing.weights = options_.choices() > 1 ? normalized(top.values, 1e-9) : top.values;
  routing.attempted = attempted(top.indices, counting_choices(routing));
}

/// Fedus et al., Switch Transformers, 2021. With switch_max an expert keeps its tokens of largest weight.
void Router::choose_switch(Routing& routing) const {
  const double temperature = options_.switch_temperature;
  if (switch_policy() == SwitchPolicy::kSample && temperature > 0) {
    const Tensor& logits = routing.logits;
    const Tensor noise = random_gumbel(logits.graph(), logits.shape(), 0, temperature, logits.dtype());
    routing.chosen = best_experts(add(logits, noise), routing.experts, 1).indices;
    routing.weights = gather(routing.scores, routing.chosen, routing.experts, routing.chosen.shape());
  } else {
    const TopKResult best = best_experts(routing.scores, routing.experts, 1);
    routing.chosen = best.indices;
    routing.weights = best.values;
  }
  routing.attempted = attempted(routing.chosen, {});
  if (options_.gating == Gating::kSwitchMax) routing.priority = priority_of(routing);
}

/// Each token tries its best experts one after the other, until one has a place.
void Router::choose_ntlb(Routing& routing) const {
  const TopKResult top = best_experts(routing.scores, routing.experts, options_.choices());
  routing.chosen = top.indices;
  routing.weights = top.values;
  routing.attempted = attempted(top.indices, {});
}

/// Each expert takes the tokens of its group that it likes best. A choice is an expert here.
void Router::choose_expert_selection(Routing& routing) const {
  Graph& graph = context_.graph();
  const Dimension choice{std::string(kChoice), routing.experts.size};
  Tensor logits = routing.logits;
  if (tokens_) logits = add(logits, scalar_multiply(scalar_add(tokens_, -1), 1e9), logits.shape());
  routing.scores = groups_.part(softmax(groups_.join(logits), groups_.group().name));
  routing.weights = rename(routing.scores, routing.experts.name, choice.name);
  routing.chosen = broadcast(range(graph, choice), routing.weights.shape());
  routing.attempted = routing.chosen;
  routing.priority = priority_of(routing);
}

/// Scores that choose: with selection bias, and minus infinity in groups of experts that are not chosen. DeepSeek-V2,
/// 2024, §2.1.2; DeepSeek-V3, 2024, §2.1.2.
Tensor Router::selection_scores(Routing& routing) const {
  Graph& graph = context_.graph();
  Tensor scores = stop_gradient(routing.scores);
  if (options_.selection_bias) {
    routing.bias = context_.statistic("selection_bias", {routing.experts}, Initializer::zeros());
    scores = add(scores, cast(routing.bias, scores.dtype()), scores.shape());
  }
  if (options_.expert_groups == 1) return scores;
  const Dimension groups{"expert_groups", options_.expert_groups},
      members{"group_members", routing.experts.size / groups.size},
      kept{"kept_groups", options_.groups_per_token};
  const Tensor grouped = replace_dimensions(scores, {routing.experts}, {groups, members});
  const Shape of_groups = groups_.tokens() + groups;
  const Tensor group_scores =
      options_.group_score == GroupScore::kMax
          ? reduce_max(grouped, of_groups)
          : reduce_sum(top_k(grouped, members, {"best_members", 2}).values, of_groups);
  const Tensor indices = top_k(group_scores, groups, kept).indices;
  const Tensor is_kept = greater(reduce_sum(one_hot(indices, groups), of_groups), graph.constant(0));
  const Tensor none =
      graph.constant(-std::numeric_limits<double>::infinity(), scores.dtype(), grouped.shape());
  return replace_dimensions(where(broadcast(is_kept, grouped.shape()), grouped, none), {groups, members},
                            {routing.experts});
}

void Router::choose_top_k(Routing& routing) const {
  const int64_t k = options_.choices();
  const TopKResult best = best_experts(routing.scores, routing.experts, k);
  routing.chosen = best.indices;
  routing.weights = best.values;
  if (options_.selection_bias || options_.expert_groups > 1) {
    routing.best = best.indices;
    routing.ranked = selection_scores(routing);
    routing.chosen = best_experts(routing.ranked, routing.experts, k).indices;
    routing.weights = gather(routing.scores, routing.chosen, routing.experts, routing.chosen.shape());
  }
  if (options_.normalize) routing.weights = normalized(routing.weights, 1e-20);
  if (options_.scale != 1) routing.weights = scalar_multiply(routing.weights, options_.scale);
  routing.attempted = attempted(routing.chosen, {});
  if (options_.drop == DropOrder::kProbability) routing.priority = priority_of(routing);
  if (options_.selection_bias) move_selection_bias(routing);
}

/// After each step the bias of experts with more tokens than the mean goes down, that of others up. Wang et al.,
/// Auxiliary-Loss-Free Load Balancing, 2024, algorithm 1.
void Router::move_selection_bias(const Routing& routing) const {
  const Tensor counts = count_choices(routing.attempted, routing.experts, Shape{}, DType::kFloat32);
  const auto moved = [rate = options_.bias_update_rate, centered = options_.centered](const Tensor& before,
                                                                                      const Tensor& count) {
    Tensor step = sign(subtract(reduce_mean(count, Shape{}), count, count.shape()));
    if (centered) step = subtract(step, reduce_mean(step, Shape{}), step.shape());
    return add(before, scalar_multiply(step, rate));
  };
  context_.update_statistic("selection_bias", counts, moved);
}

}  // namespace mtf
