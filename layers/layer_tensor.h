// A tensor on its way through layers.
#pragma once

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "engine/graph/operation.h"

namespace mtf {

/// A tensor, and those of its dimensions that the layers before have made: what the next dense layer contracts when
/// it is not told. A layer that makes dimensions returns {y, dimensions}; one that makes none returns y alone.
class LayerTensor : public Tensor {
 public:
  LayerTensor() = default;
  LayerTensor(const Tensor& tensor) : Tensor(tensor) {}
  LayerTensor(const Tensor& tensor, Shape made) : Tensor(tensor), made_(std::move(made)) {}

  /// Nothing: no layer has made one.
  const std::optional<Shape>& made() const { return made_; }
  /// This tensor as the result of a layer on x: where the layer made no dimensions, those of x's that it still has.
  LayerTensor made_from(const LayerTensor& x) const {
    if (made_ || !x.made_) return *this;
    std::vector<Dimension> kept;
    for (const Dimension& d : *x.made_) {
      if (shape().contains(d.name)) kept.push_back(shape().dimension(d.name));
    }
    return kept.empty() ? *this : LayerTensor(*this, Shape(std::move(kept)));
  }

 private:
  std::optional<Shape> made_;
};

/// A layer as a function.
using LayerFunction = std::function<LayerTensor(const LayerTensor&)>;

}  // namespace mtf
