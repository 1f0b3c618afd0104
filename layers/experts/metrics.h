// What a layer of experts reports of its routing, for the log of training.
#pragma once

#include "layers/context.h"
#include "layers/experts/balance.h"
#include "layers/experts/places.h"
#include "layers/experts/router.h"

namespace mtf {

/// Adds the reports experts/.. and router/.. of docs/experts.md.
void report_routing(Context& context, const MoeOptions& options, const Routing& routing,
                    const ExpertPlaces& places, const RealTokens& tokens);

}  // namespace mtf
