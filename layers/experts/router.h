// The router of a layer of experts: which experts each token chooses, and with which weights.
#pragma once

#include <string_view>

#include "layers/context.h"
#include "layers/experts/options.h"
#include "layers/experts/token_groups.h"

namespace mtf {

/// The dimension of the experts that a token chooses.
inline constexpr std::string_view kChoice = "choice";

/// What the router found for tokens [batch.., length].
struct Routing {
  Dimension experts;     ///< of logits and scores
  Tensor logits;         ///< [tokens.., experts]
  Tensor scores;         ///< [tokens.., experts]: softmax or sigmoids of the logits
  Tensor chosen;         ///< int32 [tokens.., choice]: experts, best first
  Tensor attempted;      ///< the same, -1 where a choice does not count
  Tensor weights;        ///< [tokens.., choice]
  Tensor priority = {};  ///< float32 [tokens.., choice]; null: the order of choices, then tokens
  /// [tokens.., choice]: as chosen, without selection bias and groups of experts; null: the same as chosen.
  Tensor best = {};
  Tensor ranked = {};  ///< [tokens.., experts]: the scores that chose where those are others
  Tensor bias = {};    ///< [experts]: the selection bias
};

/// Variables: GATING_gating/kernel [d_model, expert_unsplit], float32 wherever it is used, and with a selection bias
/// GATING_gating/selection_bias [expert_unsplit].
class Router {
 public:
  /// `tokens`: those that count, float32 [batch.., length] of 0 and 1; null: all.
  Router(Context& context, const MoeOptions& options, const TokenGroups& groups, const Tensor& tokens);

  /// x: [tokens.., d_model]
  Routing operator()(const Tensor& x, const Dimension& model) const;

 private:
  Tensor logits(const Tensor& x, const Dimension& model) const;
  Tensor noisy(const Tensor& x) const;
  void choose_top_n(Routing& routing) const;
  void choose_switch(Routing& routing) const;
  void choose_ntlb(Routing& routing) const;
  void choose_expert_selection(Routing& routing) const;
  void choose_top_k(Routing& routing) const;
  void move_selection_bias(const Routing& routing) const;
  Tensor counting_choices(const Routing& routing) const;
  Tensor selection_scores(Routing& routing) const;
  /// `expert` where the token counts and `counts` (may be null) holds, else -1.
  Tensor attempted(const Tensor& expert, const Tensor& counts) const;
  SwitchPolicy switch_policy() const;
  DType type() const;

  Context& context_;
  const MoeOptions& options_;
  const TokenGroups& groups_;
  Tensor tokens_;
};

}  // namespace mtf
