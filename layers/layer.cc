#include "layers/layer.h"

#include <algorithm>

#include "engine/graph/gradients.h"

namespace mtf {
namespace {

Error with_mark(const Error& error, const Mark& mark) {
  std::vector<Problem> problems = error.problems();
  for (Problem& problem : problems) {
    if (!problem.mark.known()) problem.mark = mark;
  }
  return Error(std::move(problems));
}

Tensor apply(Context& context, const LayerList::Item& item, const Tensor& x) {
  const auto scope = context.graph().scope(item.name, item.mark);
  if (item.layer->is_group()) return (*item.layer)(context, x);
  const auto layer = context.graph().layer();
  return (*item.layer)(context, x);
}

bool is_recomputed(Context& context, const LayerList::Item& item) {
  bool found = false;
  for (const std::string& layer : context.recomputed()) {
    if (layer != item.kind && layer != item.name) continue;
    context.found_recomputed(layer);
    found = true;
  }
  return found;
}

Tensor apply_recomputed(Context& context, const LayerList::Item& item, const Tensor& x) {
  const std::vector<std::string> recomputed = context.recomputed();
  context.set_recompute({});  // layers inside are repeated with this one
  Tensor kept;
  const auto layer = [&](const Tensors& inputs) {
    kept = apply(context, item, inputs[0]);
    return Tensors{kept};
  };
  const Tensor y = recompute(layer, {x})[0];
  context.set_recompute(recomputed);
  context.inherit_made(y, kept);
  return y;
}

}  // namespace

Tensor LayerList::operator()(Context& context, const Tensor& x) const {
  Tensor y = x;
  for (const Item& item : items_) {
    try {
      const Tensor next =
          is_recomputed(context, item) ? apply_recomputed(context, item, y) : apply(context, item, y);
      check_elements(item.name, next.shape());
      context.inherit_made(next, y);
      y = next;
    } catch (const Error& error) {
      throw with_mark(error, item.mark);
    }
  }
  return y;
}

}  // namespace mtf
