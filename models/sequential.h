// What models made of one list of layers share: the way from an input feature through the layers.
#pragma once

#include <string>
#include <vector>

#include "engine/config/schema.h"
#include "layers/layer.h"
#include "models/model.h"

namespace mtf {

struct SequentialOptions {
  std::string name;
  config::Name input;
  config::Node layers;
  config::Node layer_defaults;
  config::Named<config::Node> blocks;
};
/// The keys name, input, layers, layer_defaults, blocks.
void describe_sequential(config::Visitor& visit, SequentialOptions& options);

/// The layers of a model, applied to its input feature.
class Sequential {
 public:
  /// Everything that is wrong with the layers goes to `diagnostics`.
  Sequential(const SequentialOptions& options, Diagnostics& diagnostics);

  const std::string& input() const { return input_.text; }
  /// The scope of the variables; may be empty.
  const std::string& name() const { return name_; }
  /// What the data may say of the tokens of the input: padding, types and places in texts.
  std::vector<std::string> optional_features() const;
  /// Where the last layer stands: what it makes must fit the loss.
  const Mark& mark() const { return mark_; }
  /// Variables are called NAME/LAYER/... (LAYER/... without a name). Inputs are cast to the activation dtype, but for whole
  /// numbers where a layer looks them up. Throws Error where none looks up the ids of a vocabulary.
  LayerTensor operator()(Context& context, const Features& features) const;
  /// Feature `name`; throws Error with the nearest name when the data has none.
  const Tensor& feature(const Features& features, const config::Name& name) const;

 private:
  /// The input feature as the first layer takes it.
  Tensor prepared(const Context& context, const Tensor& input) const;

  std::string name_;
  config::Name input_;
  Mark mark_;
  LayerList list_;
  bool reads_ids_ = false;
};

/// x: [batch, ...] -> [batch], the mean of each example.
Tensor mean_of_examples(const Context& context, const Tensor& x);

/// What logits [.., classes] say of the labels [..], for ModelOutput::classification.
Classification classification_of(const Tensor& logits, const Dimension& classes, const Tensor& labels);

}  // namespace mtf
