// One label for each example: a list of layers from the input to logits, softmax cross-entropy, accuracy.
#pragma once

#include <array>

#include "models/sequential.h"

namespace mtf {

struct ClassifierOptions : SequentialOptions {
  static constexpr std::string_view type_name = "classifier";
  static constexpr std::array common_names = {CommonName{"classification", "`classifier`"},
                                              CommonName{"mlp", "`classifier` or `regression`"},
                                              CommonName{"sequential", "`classifier` or `regression`"},
                                              CommonName{"feed_forward", "`classifier` or `regression`"}};
  static constexpr bool type_required = true;
  ClassifierOptions() { input = "image"; }

  config::Name labels = "labels";
  LossOptions loss = "cross_entropy";
  double label_smoothing = 0;
  double z_loss = 0;
};
void describe(config::Visitor& visit, ClassifierOptions& options);

/// The dimension that the last layer makes is that of the classes. Labels: int32, the dimensions of the
/// logits without the classes. Loss: mean over the examples of the cross-entropy with smoothed labels, in
/// training plus z_loss * log_z^2.
class Classifier final : public Model {
 public:
  Classifier(const ClassifierOptions& options, Diagnostics& diagnostics);
  std::vector<std::string> features() const override { return {layers_.input(), options_.labels.text}; }
  std::vector<std::string> metrics() const override { return {"loss", "accuracy"}; }
  ModelOutput build(Context& context, const Features& features) const override;

 private:
  Dimension classes(const Context& context, const Tensor& logits, const Tensor& labels) const;

  ClassifierOptions options_;
  Sequential layers_;
};

}  // namespace mtf
