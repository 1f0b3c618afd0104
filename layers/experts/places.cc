#include "layers/experts/places.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/graph/sharding_rule.h"
#include "engine/ops/binary.h"
#include "engine/ops/einsum.h"
#include "engine/ops/expert_product.h"
#include "engine/ops/indexing.h"
#include "engine/ops/reshape.h"
#include "layers/dropout.h"
#include "layers/experts/capacity.h"
#include "layers/initializer.h"

namespace mtf {
namespace {

constexpr std::string_view kExperts = "experts";

}  // namespace

ExpertPlaces::ExpertPlaces(const Context& context, const MoeOptions& options, const TokenGroups& groups,
                           const Routing& routing, bool keeps_all)
    : options_(options), groups_(groups), sorted_(keeps_all) {
  const int64_t experts = options.num_experts, tokens = groups.group().size;
  if (sorted_) {
    // The check of layouts tells of parts that are not equal.
    const int64_t parts = experts % context.expert_parts() == 0 ? context.expert_parts() : experts;
    block_.size = parts;
    capacity_ = {"expert_rows", std::min(options.choices(), experts / parts) * tokens};
    filled_ = static_cast<double>(options.choices() * tokens) / static_cast<double>(size());
  } else {
    block_.size = experts;
    capacity_ = {"expert_capacity", expert_capacity(options, tokens, context.training())};
  }
  block_.name = routed_experts();
  const Tensor priority = routing.priority ? groups.join(routing.priority) : Tensor{};
  slots_ = assign_slots(groups.join(routing.attempted), priority,
                        {.experts = experts,
                         .block = block_,
                         .capacity = capacity_,
                         .one_per_token = options.gating == Gating::kNtlb});
}

/// The name of the experts while rows lie with their tokens. Where experts are split over mesh dimensions that do not
/// split tokens, either each position combines what it has and the sums are added up (two rows of each token move, in
/// all), or the rows of all places are gathered (one row of each place moves).
std::string ExpertPlaces::routed_experts() const {
  if (size() < 2 * groups_.group().size) return "experts_unsplit";
  return split_apart(std::string(kExperts), groups_.rows().names());
}

Tensor ExpertPlaces::mixed(Context& context, const Tensor& x, const Tensor& weights,
                           const Shape& model) const {
  const Tensor joined = groups_.join(weights);
  const bool on_input = options_.is_top_k() && options_.weight_on == WeightOn::kInput;
  const Tensor rows = dispatch(groups_.join(x), slots_, on_input ? joined : Tensor{});
  const Tensor results = experts(context, rows, model);
  return groups_.part(combine(results, slots_, on_input ? Tensor{} : joined));
}

/// rows [block, groups.., ..] with the dimensions that they have where the experts are.
Shape ExpertPlaces::moved(const Shape& rows) const {
  std::vector<Dimension> dimensions{{std::string(kExperts), rows[0].size}};
  for (int i = 1; i < rows.rank(); ++i) {
    dimensions.push_back(rows[i]);
    if (groups_.rows().contains(rows[i].name))
      dimensions.back().name = split_apart(rows[i].name, {std::string(kExperts)});
  }
  return Shape(std::move(dimensions));
}

/// rows: [block, groups.., places, model]. They go from where the tokens are to where the experts are, and back; with both
/// split over the same mesh dimension by all-to-all.
Tensor ExpertPlaces::experts(Context& context, const Tensor& rows, const Shape& model) const {
  const Shape there = moved(rows.shape());
  for (int i = 0; i < there.rank(); ++i) context.note_rename(rows.shape()[i].name, there[i].name);
  const Tensor offsets = reshape(slots_.offsets, moved(slots_.offsets.shape()));
  Tensor h = hidden(context, reshape(rows, there), offsets, model[0]);
  h = sorted_ ? dropout_of_choices(context, h) : dropout(context, h, options_.dropout_rate);
  const Tensor y = product(context, "wo", h, offsets, {"expert_hidden", options_.hidden_size}, model[0]);
  return reshape(y, rows.shape());
}

Tensor ExpertPlaces::hidden(Context& context, const Tensor& x, const Tensor& offsets,
                            const Dimension& model) const {
  const std::vector<Activation>& activations = options_.activation;
  Tensor result;
  for (size_t i = 0; i < activations.size(); ++i) {
    const std::string name = activations.size() == 1 ? "wi" : fmt::format("wi_{}", i);
    const Tensor factor = activate(
        product(context, name, x, offsets, model, {"expert_hidden", options_.hidden_size}), activations[i]);
    result = result ? multiply(result, factor) : factor;
  }
  return result;
}

/// Dropout of rows that are sorted by expert. The place of a row depends on the number of blocks, and so on the layout;
/// its mask is therefore that of the token's choice. h: [experts, groups.., places, expert_hidden]
Tensor ExpertPlaces::dropout_of_choices(Context& context, const Tensor& h) const {
  if (!context.training() || options_.dropout_rate == 0) return h;
  const Tensor taker = reshape(slots_.taker, moved(slots_.taker.shape()));
  const Dimension choices{"routed_choice", groups_.group().size * options_.choices()};
  const Shape rows = taker.shape() - taker.shape()[0] - capacity_;
  const Tensor ones = h.graph().constant(1, h.dtype(), rows + choices + h.shape().dimension("expert_hidden"));
  const Tensor masks = dropout(context, ones, options_.dropout_rate);
  return multiply(h, gather(masks, taker, choices.name, h.shape()));
}

/// Each row times the matrix NAME/kernel of its expert.
Tensor ExpertPlaces::product(Context& context, const std::string& name, const Tensor& x,
                             const Tensor& offsets, const Dimension& in, const Dimension& out) const {
  const auto scope = context.graph().scope(name);
  const Initializer initializer = make_initializer(InitializerOptions(), in.size, out.size);
  const Dimension experts{std::string(kExperts), options_.num_experts};
  const Tensor kernel = context.variable("kernel", {experts, in, out}, initializer);
  return sorted_ ? expert_product(x, kernel, offsets, filled_) : einsum({x, kernel}, x.shape() - in + out);
}

}  // namespace mtf
