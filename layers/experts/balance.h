// What routers lose and report: losses that balance the experts, and how they are used.
#pragma once

#include "layers/context.h"
#include "layers/experts/router.h"
#include "layers/experts/token_groups.h"

namespace mtf {

/// The balance loss without its coefficient, 0-dimensional; 1 where all experts have as many tokens. `tokens` as for
/// Router. Formulas: docs/experts.md.
Tensor balance_loss(const MoeOptions& options, const TokenGroups& groups, const Routing& routing,
                    const Tensor& tokens);

/// The mean over the tokens of the squared log-sum-exp of the logits. Zoph et al., ST-MoE, 2022, eq. 5.
Tensor router_z_loss(const Routing& routing, const Tensor& tokens);

}  // namespace mtf
