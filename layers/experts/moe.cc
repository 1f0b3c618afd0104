// The layer MoE1D: feed-forward layers of which each token uses a few.
#include "engine/graph/sharding_rule.h"
#include "engine/ops/binary.h"
#include "engine/ops/cast.h"
#include "engine/ops/reduce.h"
#include "engine/ops/reshape.h"
#include "engine/ops/routing.h"
#include "engine/ops/unary.h"
#include "layers/dense.h"
#include "layers/dropout.h"
#include "layers/experts/balance.h"
#include "layers/experts/capacity.h"
#include "layers/experts/router.h"
#include "layers/registry.h"

namespace mtf {
namespace {

class MoeLayer final : public Layer {
 public:
  using Options = MoeOptions;
  explicit MoeLayer(const Options& options) : options_(options) {}

  LayerTensor operator()(Context& context, const LayerTensor& x) const override {
    const Sequence& sequence = context.sequence("MoE1D");
    check_direction(sequence);
    const Shape model = context.made(x);
    const RealTokens tokens = sequence.is_step() ? RealTokens() : RealTokens(sequence);
    const TokenGroups groups = groups_of(sequence, x.shape() - model);
    const Routing routing = Router(context, options_, groups, tokens.mask)(x, model[0]);
    add_losses(context, groups, routing, tokens);
    return {mixed(context, groups, routing, x, model, sequence.decoding != nullptr), model};
  }

 private:
  void check_direction(const Sequence& sequence) const {
    if (options_.gating != Gating::kExpertSelection || !sequence.causal) return;
    throw Error(ErrorKind::kConfig,
                "MoE1D: with gating `expert_selection` the experts of a token depend on later tokens, which "
                "this model "
                "must not see",
                "another gating, such as `switch` or `top_k`; or an encoder");
  }

  /// Texts that are decoded do not compete for places.
  TokenGroups groups_of(const Sequence& sequence, const Shape& tokens) const {
    if (sequence.decoding != nullptr) return {tokens, Grouping::kRow, tokens[tokens.rank() - 1].size};
    return {tokens, options_.grouping, options_.group_size};
  }

  void add_losses(Context& context, const TokenGroups& groups, const Routing& routing,
                  const RealTokens& tokens) const {
    if (!context.training()) return;
    const double coef = options_.is_top_k() ? options_.balance.coef : options_.loss_coef;
    const double z = options_.is_top_k() ? options_.router_z : options_.z_loss * options_.loss_coef;
    if (coef > 0)
      context.add_loss("balance", scalar_multiply(balance_loss(options_, groups, routing, tokens), coef));
    if (z > 0) context.add_loss("router_z", scalar_multiply(router_z_loss(routing, tokens), z));
  }

  /// The sum over the experts of each token of weight * expert(token).
  Tensor mixed(Context& context, const TokenGroups& groups, const Routing& routing, const Tensor& x,
               const Shape& model, bool keeps_all) const {
    const Dimension capacity{
        "expert_capacity",
        keeps_all ? groups.group().size : expert_capacity(options_, groups.group().size, context.training())};
    const Dimension block{routed_experts(groups, capacity), options_.num_experts};
    const Slots slots = assign_slots(groups.join(routing.attempted), joined(groups, routing.priority),
                                     {.experts = options_.num_experts,
                                      .block = block,
                                      .capacity = capacity,
                                      .one_per_token = options_.gating == Gating::kNtlb});
    const Tensor rows = dispatch(groups.join(x), slots);
    const Tensor results = experts(context, groups, rows, model);
    const Tensor weights = groups.join(weights_of(groups, routing, slots));
    return groups.part(combine(results, slots, weights));
  }

  static Tensor joined(const TokenGroups& groups, const Tensor& x) { return x ? groups.join(x) : x; }

  /// A token that several experts have selected gets the mean over them.
  Tensor weights_of(const TokenGroups& groups, const Routing& routing, const Slots& slots) const {
    if (options_.gating != Gating::kExpertSelection) return routing.weights;
    Graph& graph = slots.slot.graph();
    const Tensor taken =
        cast(greater_equal(slots.slot, graph.constant(0, DType::kInt32)), routing.weights.dtype());
    const Tensor count = groups.part(reduce_sum(taken, groups.rows() + groups.group()));
    const Tensor one = graph.constant(1, count.dtype());
    return divide(routing.weights, maximum(count, one), routing.weights.shape());
  }

  /// The name of the experts while rows lie with their tokens. Where experts are split over mesh dimensions that do not
  /// split tokens, either each position combines what it has and the sums are added up (2 rows of each token move, in
  /// all), or the rows of all places are gathered (one row of each place moves).
  std::string routed_experts(const TokenGroups& groups, const Dimension& capacity) const {
    if (options_.num_experts * capacity.size < 2 * groups.group().size) return "experts_unsplit";
    std::vector<std::string> others;
    for (const Dimension& d : groups.rows()) others.push_back(d.name);
    return split_apart("experts", others);
  }

  /// rows: [experts, groups.., expert_capacity, model]. From where the tokens are they go to where the experts are, and
  /// back: with both split over the same mesh dimension by all-to-all.
  Tensor experts(Context& context, const TokenGroups& groups, const Tensor& rows, const Shape& model) const {
    const Dimension experts{"experts", options_.num_experts}, hidden{"expert_hidden", options_.hidden_size};
    Shape there{experts};
    for (const Dimension& d : groups.rows()) {
      there = there + Dimension{split_apart(d.name, {experts.name}), d.size};
      context.note_rename(d.name, there[there.rank() - 1].name);
    }
    const int rank = rows.shape().rank();
    there = there + rows.shape()[rank - 2] + rows.shape()[rank - 1];
    const DenseArguments inwards{.over = model, .experts = {experts}, .bias = false};
    Tensor h = dense_product(context, "wi", reshape(rows, there), {hidden}, options_.activation, inwards);
    h = dropout(context, h, options_.dropout_rate);
    const Tensor y =
        dense(context, "wo", h, model, {.over = Shape{hidden}, .experts = {experts}, .bias = false});
    return reshape(y, rows.shape());
  }

  Options options_;
};

const LayerRegistration<MoeLayer> moe_registration(
    "MoE1D",
    "p = softmax(x gating), experts e_1, e_2, ... of largest p, y = sum over i of weight_i * "
    "expert_(e_i)(x)\n"
    "expert(x) = dropout(activation(x wi)) wo; several activations: their product\n"
    "gating: [d_model, expert_unsplit], wi (or wi_0, wi_1, ...): [experts, d_model, expert_hidden], wo: "
    "[experts, expert_hidden, d_model]. Shazeer et al., Outrageously Large Neural Networks, 2017",
    {"moe", "mixture_of_experts", "sparse_moe", "switch_ffn", "SparseMoeBlock"});

}  // namespace
}  // namespace mtf
