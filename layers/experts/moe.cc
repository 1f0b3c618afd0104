// The layer MoE1D: feed-forward layers of which each token uses a few.
#include "engine/ops/binary.h"
#include "engine/ops/cast.h"
#include "engine/ops/reduce.h"
#include "engine/ops/reshape.h"
#include "engine/ops/unary.h"
#include "layers/dense.h"
#include "layers/dropout.h"
#include "layers/experts/balance.h"
#include "layers/experts/metrics.h"
#include "layers/experts/places.h"
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
    const Shape model = context.made(x), rows = x.shape() - model;
    const RealTokens tokens = sequence.is_step() ? RealTokens() : RealTokens(sequence);
    const TokenGroups groups(rows, options_.grouping, options_.group_size);
    const Routing routing = Router(context, options_, groups, tokens.mask)(x, model[0]);
    add_losses(context, groups, routing, tokens);
    // Without a capacity tokens do not compete: a group is a row.
    const bool keeps_all =
        options_.is_dropless() || (context.keeps_tokens() && options_.gating != Gating::kExpertSelection);
    const TokenGroups sharing(rows, keeps_all ? Grouping::kRow : options_.grouping,
                              keeps_all ? rows[rows.rank() - 1].size : options_.group_size);
    const ExpertPlaces places(context, options_, sharing, routing, keeps_all);
    report_routing(context, options_, routing, places, tokens);
    Tensor y = places.mixed(context, x, weights(routing, places), model);
    if (options_.is_top_k() && options_.shared_experts > 0) y = add(y, shared(context, x, model), y.shape());
    return {y, model};
  }

 private:
  void check_direction(const Sequence& sequence) const {
    if (options_.gating != Gating::kExpertSelection || !sequence.causal) return;
    throw Error(ErrorKind::kConfig,
                "MoE1D: with gating `expert_selection` the experts of a token depend on later tokens, which "
                "this model must not see",
                "another gating, such as `switch` or `top_k`; or an encoder");
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

  /// Where experts select tokens, a token that several have selected gets the mean.
  Tensor weights(const Routing& routing, const ExpertPlaces& places) const {
    if (options_.gating != Gating::kExpertSelection) return routing.weights;
    const Tensor slot = places.groups().part(places.slots().slot);
    const Tensor none = slot.graph().constant(0, DType::kInt32);
    const Tensor taken = cast(greater_equal(slot, none), routing.weights.dtype());
    const Tensor count = reduce_sum(taken, places.groups().tokens());
    const Tensor one = count.graph().constant(1, count.dtype());
    return divide(routing.weights, maximum(count, one), routing.weights.shape());
  }

  /// The experts of every token, as one feed-forward layer. Dai et al., DeepSeekMoE, 2024, §3.2.
  Tensor shared(Context& context, const Tensor& x, const Shape& model) const {
    const auto scope = context.graph().scope("shared");
    const Shape hidden{
        {"d_ff", options_.shared_hidden_size.value_or(options_.shared_experts * options_.hidden_size)}};
    Tensor h = dense_product(context, "wi", x, hidden, options_.activation, {.over = model, .bias = false});
    h = dropout(context, h, options_.dropout_rate);
    const Tensor y = dense(context, "wo", h, model, {.over = hidden, .bias = false});
    if (!options_.shared_gate) return y;
    const Tensor gate = dense(context, "gate", x, {{"shared_gate", 1}}, {.over = model, .bias = false});
    return multiply(y, sigmoid(reshape(gate, x.shape() - model)), y.shape());
  }

  Options options_;
};

const LayerRegistration<MoeLayer> moe_registration(
    "MoE1D",
    "p = softmax(x gating), experts e_1, e_2, ... of largest p, y = sum over i of weight_i * "
    "expert_(e_i)(x)\n"
    "expert(x) = dropout(activation(x wi)) wo; several activations: their product\n"
    "gating: [d_model, expert_unsplit], wi (or wi_0, wi_1, ...): [experts, d_model, expert_hidden], wo: "
    "[experts, expert_hidden, d_model]; shared_experts: another such layer, of every token. Shazeer et al., "
    "Outrageously Large Neural Networks, 2017",
    {"moe", "mixture_of_experts", "sparse_moe", "switch_ffn", "SparseMoeBlock"});

}  // namespace
}  // namespace mtf
