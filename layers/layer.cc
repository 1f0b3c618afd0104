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

LayerTensor apply(Context& context, const LayerList::Item& item, const LayerTensor& x) {
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

LayerTensor apply_layer(Context& context, const std::vector<std::string>& names, const LayerFunction& layer,
                        const LayerTensor& x) {
  if (!is_recomputed(context, names)) return layer(x);
  const std::vector<std::string> recomputed = context.recomputed();
  context.set_recompute({});  // layers inside are repeated with this one
  LayerTensor kept;
  std::vector<LayerTerm>& terms = context.terms();
  const size_t first = terms.size();  // the terms that the layer adds are results too
  const auto inner = [&](const Tensors& inputs) {
    kept = layer(LayerTensor(inputs[0]).made_from(x));
    Tensors results{kept};
    for (size_t i = first; i < terms.size(); ++i) results.push_back(terms[i].value);
    return results;
  };
  const Tensors results = recompute(inner, {x});
  context.set_recompute(recomputed);
  for (size_t i = first; i < terms.size(); ++i) terms[i].value = results[1 + i - first];
  return LayerTensor(results[0]).made_from(kept);
}

LayerTensor LayerList::operator()(Context& context, const LayerTensor& x) const {
  LayerTensor y = x;
  for (const Item& item : items_) {
    try {
      const auto layer = [&](const LayerTensor& input) { return apply(context, item, input); };
      const LayerTensor next = apply_layer(context, {item.kind, item.name}, layer, y);
      check_elements(item.name, next.shape());
      y = next.made_from(y);
    } catch (const Error& error) {
      throw with_mark(error, item.mark);
    }
  }
  return y;
}

}  // namespace mtf
