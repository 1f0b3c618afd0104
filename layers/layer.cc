#include "layers/layer.h"

#include <utility>

#include "engine/base/placed_at.h"
#include "engine/graph/gradients.h"

namespace mtf {
namespace {

/// The scope of a layer in the one around the list; empty: that one.
std::string scope_of(const LayerList::Item& item) {
  const bool has_own_name = item.named || item.name != item.kind;
  return item.layer->is_transparent(has_own_name) ? "" : item.name;
}

LayerTensor apply(Context& context, const LayerList::Item& item, const LayerTensor& x) {
  if (item.layer->is_group()) {
    const auto scope = context.graph().scope(scope_of(item), item.mark);
    return (*item.layer)(context, x);
  }
  const auto unit = context.graph().unit(item.name);
  const auto scope = context.graph().scope(scope_of(item), item.mark);
  const auto layer = context.graph().layer();
  return (*item.layer)(context, x);
}

}  // namespace

LayerTensor apply_layer(Context& context, AppliedLayer applied, const LayerFunction& layer,
                        const LayerTensor& x) {
  const bool is_chosen = context.note_applied(std::move(applied));
  if (!is_chosen || context.recomputes()) return layer(x);
  context.set_recomputes(true);  // layers inside are repeated with this one
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
  context.set_recomputes(false);
  for (size_t i = first; i < terms.size(); ++i) terms[i].value = results[1 + i - first];
  return LayerTensor(results[0]).made_from(kept);
}

LayerTensor LayerList::operator()(Context& context, const LayerTensor& x) const {
  LayerTensor y = x;
  for (const Item& item : items_) {
    try {
      const auto layer = [&](const LayerTensor& input) { return apply(context, item, input); };
      AppliedLayer applied{{item.kind, item.name}, context.graph().scoped(scope_of(item))};
      const LayerTensor next = apply_layer(context, std::move(applied), layer, y);
      check_elements(item.name, next.shape());
      y = next.made_from(y);
    } catch (const Error& error) {
      throw placed_at(error, item.mark);
    }
  }
  return y;
}

}  // namespace mtf
