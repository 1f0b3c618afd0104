#include "layers/experts/balance.h"

#include "engine/graph/structural.h"
#include "engine/ops/binary.h"
#include "engine/ops/broadcast.h"
#include "engine/ops/cast.h"
#include "engine/ops/indexing.h"
#include "engine/ops/reduce.h"
#include "engine/ops/reshape.h"
#include "engine/ops/slice.h"
#include "engine/ops/softmax.h"
#include "engine/ops/unary.h"
#include "layers/experts/counts.h"

namespace mtf {

RealTokens::RealTokens(const Sequence& sequence) : mask(sequence.mask), mask_of_step(mask) {
  if (!mask) return;
  const Tensor segment = whole_batch(sequence.segment);
  const Tensor padding = segment.graph().constant(0, segment.dtype());
  mask_of_step = cast(not_equal(segment, padding), DType::kFloat32);
}

namespace {

/// `sum` of a microbatch such that the mean over the microbatches is the sum over the step / count.
Tensor part_of_step(const Tensor& sum, const Tensor& count) {
  const Tensor mean = divide(sum, maximum(count, sum.graph().constant(1, sum.dtype())));
  const int64_t microbatches = sum.graph().microbatching().count;
  return microbatches == 1 ? mean : scalar_multiply(mean, static_cast<double>(microbatches));
}

class BalanceLoss {
 public:
  BalanceLoss(const MoeOptions& options, const TokenGroups& groups, const Routing& routing,
              const RealTokens& tokens)
      : options_(options),
        groups_(groups),
        routing_(routing),
        tokens_(tokens),
        experts_(static_cast<double>(options.num_experts)) {}

  Tensor operator()() const {
    switch (options_.gating) {
      case Gating::kTop2:
      case Gating::kTopN:
        return of_top_n();
      case Gating::kSwitch:
      case Gating::kSwitchMax:
      case Gating::kNtlb:
        return of_switch();
      case Gating::kExpertSelection:
        return of_expert_selection();
      case Gating::kTopK:
        break;
    }
    return of_top_k();
  }

 private:
  const Tensor& scores() const { return routing_.scores; }

  /// x times 0 for positions that are no tokens.
  Tensor masked(const Tensor& x) const {
    return tokens_.mask ? multiply(x, cast(tokens_.mask, x.dtype()), x.shape()) : x;
  }

  /// The means over the tokens of each group. x: [tokens.., others..]
  Tensor group_means(const Tensor& x) const {
    const Tensor joined = groups_.join(x);
    return reduce_mean(joined, joined.shape() - groups_.group());
  }

  /// `expert`, and -1 for positions that are no tokens.
  Tensor counted(const Tensor& expert) const {
    if (!tokens_.mask) return expert;
    Graph& graph = expert.graph();
    const Tensor is_token = greater(tokens_.mask, graph.constant(0, tokens_.mask.dtype()));
    const Tensor none = graph.constant(-1, DType::kInt32, expert.shape());
    return where(broadcast(is_token, expert.shape()), expert, none);
  }
  /// Choice `rank` of each token.
  Tensor choice(int64_t rank) const {
    return counted(reshape(slice(routing_.chosen, std::string(kChoice), rank, 1), groups_.tokens()));
  }

  /// The share of each group's tokens that choose each expert. expert: int32 [tokens.., others..]
  Tensor shares(const Tensor& expert) const {
    const Tensor counts =
        count_choices(groups_.join(expert), routing_.experts, groups_.rows(), scores().dtype());
    return scalar_multiply(counts, 1 / static_cast<double>(groups_.group().size));
  }

  /// experts^2 * mean of x * y over groups and experts.
  Tensor product(const Tensor& x, const Tensor& y) const {
    return scalar_multiply(reduce_mean(multiply(x, y), Shape{}), experts_ * experts_);
  }

  Tensor of_top_n() const {
    const Tensor loss = product(group_means(masked(scores())), shares(choice(0)));
    if (!options_.use_second_place_loss) return loss;
    const Tensor first = one_hot(choice(0), routing_.experts, 1, 0, scores().dtype());
    const Tensor rest = subtract(scores(), multiply(scores(), first));
    const Tensor among_rest =
        divide(rest, scalar_add(reduce_sum(rest, groups_.tokens()), 1e-9), rest.shape());
    return add(loss, scalar_multiply(product(group_means(among_rest), shares(choice(1))), 0.5));
  }

  /// Positions that are no tokens count as tokens of expert 0 here, as in the original; then the loss is scaled by the
  /// share of tokens.
  Tensor of_switch() const {
    const double choices = static_cast<double>(options_.choices());
    Tensor products = scalar_multiply(multiply(shares(routing_.chosen), group_means(scores())), 1 / choices);
    if (tokens_.mask)
      products = multiply(products, group_means(cast(tokens_.mask, products.dtype())), products.shape());
    return scalar_multiply(reduce_mean(products, Shape{}), experts_ * experts_);
  }

  Tensor of_expert_selection() const {
    const Tensor shares = masked(reduce_mean(scores(), groups_.tokens()));
    Tensor squares = groups_.join(square(shares));
    const Dimension& group = groups_.group();
    if (!tokens_.mask)
      return scalar_multiply(reduce_mean(squares, Shape{}), static_cast<double>(group.size * group.size));
    const Tensor count = reduce_sum(groups_.join(cast(tokens_.mask, squares.dtype())), groups_.rows());
    squares = multiply(squares, count, squares.shape());
    return scalar_multiply(reduce_mean(squares, Shape{}), static_cast<double>(group.size));
  }

  /// experts * sum over experts of (share of choices) * (mean score), of each row or of all tokens.
  Tensor of_top_k() const {
    const Tensor& best = routing_.best ? routing_.best : routing_.chosen;
    const Shape rows = options_.balance.scope == BalanceScope::kBatch
                           ? Shape{}
                           : groups_.tokens() - groups_.tokens()[groups_.tokens().rank() - 1];
    const Tensor counts = count_choices(counted(best), routing_.experts, rows, scores().dtype());
    Tensor probabilities = scores();
    if (options_.score == Score::kSigmoid)
      probabilities = divide(scores(), reduce_sum(scores(), groups_.tokens()), scores().shape());
    const Tensor sums = reduce_sum(masked(probabilities), rows + routing_.experts);
    const Tensor products = scalar_multiply(reduce_sum(multiply(counts, sums), rows),
                                            experts_ / static_cast<double>(options_.experts_per_token));
    return mean_over_rows(products, rows);
  }

  /// The mean of products / tokens^2 over the rows of the step that have tokens.
  Tensor mean_over_rows(const Tensor& products, const Shape& rows) const {
    const double length = static_cast<double>(groups_.tokens().size() / rows.size());
    if (!tokens_.mask) return scalar_multiply(reduce_mean(products, Shape{}), 1 / (length * length));
    const Tensor one = products.graph().constant(1, products.dtype());
    const Tensor count = reduce_sum(cast(tokens_.mask, products.dtype()), rows);
    const Tensor losses = reduce_sum(divide(products, square(maximum(count, one))), Shape{});
    if (rows.rank() == 0) return losses;
    const Tensor counts =
        reduce_max(tokens_.mask_of_step, without(tokens_.mask_of_step.shape(), length_name()));
    return part_of_step(losses, reduce_sum(cast(counts, products.dtype()), Shape{}));
  }

  const std::string& length_name() const { return groups_.tokens()[groups_.tokens().rank() - 1].name; }

  const MoeOptions& options_;
  const TokenGroups& groups_;
  const Routing& routing_;
  const RealTokens& tokens_;
  double experts_;
};

}  // namespace

Tensor balance_loss(const MoeOptions& options, const TokenGroups& groups, const Routing& routing,
                    const RealTokens& tokens) {
  return BalanceLoss(options, groups, routing, tokens)();
}

Tensor router_z_loss(const Routing& routing, const RealTokens& tokens) {
  const Tensor squares = square(reduce_logsumexp(routing.logits, routing.experts.name));
  if (!tokens.mask) return reduce_mean(squares, Shape{});
  const Tensor sum = reduce_sum(multiply(squares, cast(tokens.mask, squares.dtype())), Shape{});
  return part_of_step(sum, reduce_sum(cast(tokens.mask_of_step, squares.dtype()), Shape{}));
}

}  // namespace mtf
