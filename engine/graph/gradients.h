// Reverse-mode differentiation, which adds operations to the graph; custom gradients, and recomputation.
#pragma once

#include <cstdint>
#include <functional>

#include "engine/graph/graph.h"

namespace mtf {

/// Returns the gradients of sum_i <ys[i], grad_ys[i]> with respect to `xs`; grad_ys default to ones. The
/// gradient of an x on which no y depends is null. Contributions to one tensor are added by one add_n, so
/// that partial sums are added before they are reduced.
Tensors gradients(const Tensors& ys, const Tensors& xs, const Tensors& grad_ys = {});

/// Returns the gradients with respect to the `inputs` of custom_gradient (null: none), given those with
/// respect to its outputs.
using GradientFunction =
    std::function<Tensors(const Tensors& inputs, const Tensors& outputs, const Tensors& dy)>;

/// Returns fn(inputs) with a custom gradient. `inputs` must contain every tensor to which gradients of fn's
/// result go, including variables that fn reads.
Tensors custom_gradient(const std::function<Tensors(const Tensors&)>& fn, const Tensors& inputs,
                        const GradientFunction& gradient);

/// Returns fn(inputs), which is computed again in the backward pass instead of being kept. Random operations
/// repeat their values, because these are a function of name, step and element. Gradients also go to tensors
/// from outside that fn uses.
Tensors recompute(const std::function<Tensors(const Tensors&)>& fn, const Tensors& inputs);

/// What in_parts() has computed of one part.
struct PartOfWork {
  Tensors results;  ///< what fn returns
  /// The gradient of results[0] with respect to the inputs of the part; null for those that are not floating-point.
  Tensors gradient;
  Tensors source_gradient;  ///< likewise with respect to the sources
};

/// Computes fn of part_of(0), part_of(1), ..., `count` lists of tensors of the same shapes, one part behind the other: `visit`
/// is called when a part is in the graph, before part_of() is asked for the next one. With `differentiates` the gradients of
/// its first result follow fn itself, so that what they read of it need not be kept until the backward pass. What does not
/// depend on the part is computed once. Returns the sources: the floating-point tensors from outside the parts, which
/// they all read.
Tensors in_parts(const std::function<Tensors(const Tensors&)>& fn, int64_t count,
                 const std::function<Tensors(int64_t)>& part_of, bool differentiates,
                 const std::function<void(const PartOfWork&)>& visit);

}  // namespace mtf
