// The layers of a Transformer: a block of layers, so many times, each within the same sublayers.
//
//   block: [SelfAttention, DenseReluDense]
//   sublayers:
//     {initial: [dropout], per_layer: [rms_norm, call_layer, dropout, residual], final: [rms_norm, dropout]}
#pragma once

#include <cstdint>
#include <string>

#include "engine/config/schema.h"
#include "layers/registry.h"

namespace mtf {

struct StackOptions {
  int64_t num_layers = 6;
  config::Node block;
};
void describe(config::Visitor& visit, StackOptions& options);

struct SublayerLists {
  config::Node initial;
  config::Node first;
  config::Node per_layer;
  config::Node final;
};
void describe(config::Visitor& visit, SublayerLists& options);

/// What stands around the layers of each stack of a model.
struct SublayerOptions {
  double dropout = 0;
  SublayerLists sublayers;
  bool block_scope = true;
};
/// The keys dropout, sublayers, block_scope.
void describe_sublayers(config::Visitor& visit, SublayerOptions& options);

class LayerStack {
 public:
  /// What is wrong with the lists goes to the parser's diagnostics.
  LayerStack(const StackOptions& options, const SublayerOptions& around, LayerParser& parser);

  /// x: [batch, length, model]. Layer l of block b has the scope block_BBB/layer_LLL (docs/file_formats.md
  /// "Names of variables"); positions of padding come out as zeros.
  LayerTensor operator()(Context& context, const LayerTensor& x) const;

 private:
  /// initial_ or final_ of x [rows.., vector], whose result is [rows.., another vector].
  static LayerTensor around(Context& context, const LayerList& list, const LayerTensor& x);
  /// The layer `item` of the block within its sublayers, those of the first layer of all if `is_first`.
  LayerTensor apply(Context& context, const LayerList::Item& item, const std::string& scope, bool is_first,
                    const LayerTensor& x) const;

  int64_t num_layers_;
  bool block_scope_;
  LayerList block_;
  LayerList initial_, first_, per_layer_, final_;
  Mark block_mark_, first_mark_, per_layer_mark_;
  bool has_first_ = false;
};

}  // namespace mtf
