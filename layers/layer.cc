#include "layers/layer.h"

#include <algorithm>

#include "engine/graph/gradients.h"

namespace mtf {

Error with_mark(const Error& error, const Mark& mark) {
  std::vector<Problem> problems = error.problems();
  for (Problem& problem : problems) {
    if (!problem.mark.known()) problem.mark = mark;
  }
  return Error(std::move(problems));
}

namespace {

Tensor apply(Context& context, const LayerList::Item& item, const Tensor& x) {
  const bool has_own_name = item.named || item.name != item.kind;
  const bool transparent = item.layer->is_transparent(has_own_name);
  const auto scope = context.graph().scope(transparent ? "" : item.name, item.mark);
  if (item.layer->is_group()) return (*item.layer)(context, x);
  const auto layer = context.graph().layer();
  return (*item.layer)(context, x);
}

bool is_recomputed(Context& context, const std::vector<std::string>& names) {
  bool found = false;
  for (const std::string& layer : context.recomputed()) {
    if (std::ranges::find(names, layer) == names.end()) continue;
    context.found_recomputed(layer);
    found = true;
  }
  return found;
}

}  // namespace

Tensor apply_layer(Context& context, const std::vector<std::string>& names,
                   const std::function<Tensor(const Tensor&)>& layer, const Tensor& x) {
  if (!is_recomputed(context, names)) return layer(x);
  const std::vector<std::string> recomputed = context.recomputed();
  context.set_recompute({});  // layers inside are repeated with this one
  Tensor kept;
  const auto inner = [&](const Tensors& inputs) {
    kept = layer(inputs[0]);
    return Tensors{kept};
  };
  const Tensor y = recompute(inner, {x})[0];
  context.set_recompute(recomputed);
  context.inherit_made(y, kept);
  return y;
}

Tensor LayerList::operator()(Context& context, const Tensor& x) const {
  Tensor y = x;
  for (const Item& item : items_) {
    try {
      const Tensor next = apply_layer(
          context, {item.kind, item.name}, [&](const Tensor& input) { return apply(context, item, input); },
          y);
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
