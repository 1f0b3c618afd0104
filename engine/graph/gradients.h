// Reverse-mode differentiation as graph, gradients of one's own, and recomputation.
#pragma once

#include <functional>

#include "engine/graph/graph.h"

namespace mtf {

/// Gradients of sum_i <ys[i], grad_ys[i]> with respect to `xs`; grad_ys default to ones. Null for an x that
/// no y depends on. Contributions to one tensor are added by one add_n, so that partial sums add before they
/// are reduced.
Tensors gradients(const Tensors& ys, const Tensors& xs, const Tensors& grad_ys = {});

/// Given d outputs, the gradients with respect to `inputs` of custom_gradient (null: none).
using GradientFunction =
    std::function<Tensors(const Tensors& inputs, const Tensors& outputs, const Tensors& dy)>;

/// fn(inputs) with a gradient of one's own. `inputs` must hold every tensor that fn's result should send
/// gradients to (variables read inside included).
Tensors custom_gradient(const std::function<Tensors(const Tensors&)>& fn, const Tensors& inputs,
                        const GradientFunction& gradient);

/// fn(inputs), computed again in the backward pass instead of being kept. Random operations repeat their
/// values, as their bits are a function of name, step and element. Gradients also reach the outside tensors
/// that fn uses.
Tensors recompute(const std::function<Tensors(const Tensors&)>& fn, const Tensors& inputs);

}  // namespace mtf
