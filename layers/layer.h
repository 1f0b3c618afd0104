// A layer: a function from tensor to tensor with variables of its own; and lists of them, as a configuration
// has them.
//
//   const LayerList layers = parser.parse(*model.find("layers"));   // registry.h
//   Tensor logits = layers(context, image);
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "layers/context.h"
#include "layers/layer_tensor.h"

namespace mtf {

class Layer {
 public:
  virtual ~Layer() = default;

  /// The layer applied to x. Variables go to the current scope, which is the layer's own.
  virtual LayerTensor operator()(Context& context, const LayerTensor& x) const = 0;
  /// The scope when the configuration gives no `name`; empty: the name under which the layer is registered.
  virtual std::string_view default_name() const { return {}; }
  /// True when the layer's variables go to the scope around it (call_layer). `has_own_name`: the
  /// configuration names the layer, or there is another one of its kind before it in the list.
  virtual bool is_transparent(bool /*has_own_name*/) const { return false; }
  /// True when the layer only groups others (repeat, block, transformer): they count as layers, not the group
  /// (Graph::layer, Graph::unit).
  virtual bool is_group() const { return false; }
  /// True when x are ids that the layer looks up, whole numbers; all others compute with x.
  virtual bool reads_ids() const { return false; }
};

/// layer(x); where the layer is to be computed again in the backward pass (Context::set_recompute), it is.
LayerTensor apply_layer(Context& context, AppliedLayer applied, const LayerFunction& layer,
                        const LayerTensor& x);

/// Layers applied one after the other, each in the scope of its name.
class LayerList {
 public:
  struct Item {
    std::string
        name;  ///< scope; unique in the list unless the user gave one name twice (then weights are shared)
    Mark mark;
    std::shared_ptr<const Layer> layer;
    std::string kind = {};  ///< the name under which the layer is registered
    bool named = false;     ///< the user gave `name`
  };

  LayerList() = default;
  explicit LayerList(std::vector<Item> items) : items_(std::move(items)) {}

  /// Errors of operations get the place of the layer that they happen in.
  LayerTensor operator()(Context& context, const LayerTensor& x) const;
  const std::vector<Item>& items() const { return items_; }
  bool empty() const { return items_.empty(); }
  /// The place of the last layer; there must be one.
  const Mark& last_mark() const { return items_.back().mark; }

 private:
  std::vector<Item> items_;
};

}  // namespace mtf
