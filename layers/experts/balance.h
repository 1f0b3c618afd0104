// What routers lose and report: losses that balance the experts, and how they are used.
#pragma once

#include "layers/context.h"
#include "layers/experts/router.h"
#include "layers/experts/token_groups.h"

namespace mtf {

/// Which positions of the rows count.
struct RealTokens {
  RealTokens() = default;
  explicit RealTokens(const Sequence& sequence);

  Tensor mask;          ///< float32 [batch.., length] of 0 and 1; null: all count
  Tensor mask_of_step;  ///< the same for all microbatches; null: all count
};

/// The balance loss of a microbatch without its coefficient, 0-dimensional; its mean over the microbatches is 1 where all
/// experts have as many tokens. Formulas: docs/experts.md.
Tensor balance_loss(const MoeOptions& options, const TokenGroups& groups, const Routing& routing,
                    const RealTokens& tokens);

/// The squared log-sum-exp of the logits of a microbatch, so that the mean over the microbatches is the mean over the
/// tokens. Zoph et al., ST-MoE, 2022, eq. 5.
Tensor router_z_loss(const Routing& routing, const RealTokens& tokens);

}  // namespace mtf
