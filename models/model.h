// A model: from the features of a batch to loss, logits and metrics.
//
//   ModelOutput output = model.build(context, {{"image", image}, {"labels", labels}});
//
// A batch of evaluation may be filled up with rows that do not count. Models therefore return metrics per
// example; the trainer takes sum(weights * metric) / sum(weights), with weight 0 for filling rows.
// model_options.h makes models.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "layers/context.h"

namespace mtf {

/// Tensors of a batch by name; each has the dimension context.batch().
using Features = std::map<std::string, Tensor>;

struct ModelOutput {
  Tensor loss;    ///< [], float32: the mean over the examples of what training minimises
  Tensor logits;  ///< [batch, ...]: what the model predicts
  /// By name, [batch], float32: the mean over the examples is the metric. "loss" is always there; what only
  /// evaluation asks for ("accuracy") is computed in evaluation.
  std::map<std::string, Tensor> metrics;
  std::optional<Dimension> classes;  ///< labels are 0 .. size-1
};

class Model {
 public:
  virtual ~Model() = default;
  /// Names of the features that build() reads, for checks before any step.
  virtual std::vector<std::string> features() const = 0;
  /// Names of the metrics in evaluation.
  virtual std::vector<std::string> metrics() const = 0;
  /// Adds the model to the graph. Throws Error with a place in the configuration when a feature is missing or
  /// shapes do not fit.
  virtual ModelOutput build(Context& context, const Features& features) const = 0;
};

/// Whether a metric (a name of Model::metrics()) grows as the model gets better; losses and errors do not.
bool greater_is_better(std::string_view metric);

}  // namespace mtf
