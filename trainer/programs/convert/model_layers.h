// The layers of a model's list as one sequence: what `block` and `repeat` stand for in their place, each with the scope of its
// variables. The conversion of a model so recognises it however its configuration groups and names the layers.
//
//   const ModelLayers layers(config.model);
//   for (const ScopedLayer& layer : layers.all()) ...      // {conv2d, {kernel: 7, ...}} with the scope "stem"
#pragma once

#include <string>
#include <vector>

#include "engine/config/load.h"
#include "layers/layer_entry.h"
#include "models/sequential.h"
#include "trainer/programs/convert/layer_options.h"

namespace mtf {

struct ScopedLayer {
  LayerEntry entry;   ///< without its option `name`
  std::string scope;  ///< "stage_1/000/conv_1"
};

class ModelLayers {
 public:
  /// `model` is the section of a model that is one list of layers. Throws Error (kConfig).
  explicit ModelLayers(const config::Node& model);

  /// The layers of the model.
  std::vector<ScopedLayer> all() const;
  /// The layers of a list that is an option of a layer, whose variables are in `scope`.
  std::vector<ScopedLayer> of(const config::Node& list, const std::string& scope) const;

  /// The options of a layer, with the model's defaults for it.
  template <class Options>
  Options options(const ScopedLayer& layer, const RefuseLayer& refuse) const {
    return parse_layer<Options>(layer.entry, &model_.layer_defaults, refuse);
  }

 private:
  void add(const LayerEntry& entry, const std::string& scope, std::vector<ScopedLayer>& layers) const;

  SequentialOptions model_;
};

}  // namespace mtf
