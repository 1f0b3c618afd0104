// Numbers for each example: a list of layers from the input to the target's dimensions.
#pragma once

#include "models/sequential.h"

namespace mtf {

struct RegressionOptions : SequentialOptions {
  static constexpr std::string_view type_name = "regression";
  RegressionOptions() { input = "x"; }

  config::Name target = "y";
  LossOptions loss = "mean_squared_error";
};
void describe(config::Visitor& visit, RegressionOptions& options);

/// Loss: mean over all elements of (prediction - target)^2 or |prediction - target|.
class Regression final : public Model {
 public:
  Regression(const RegressionOptions& options, Diagnostics& diagnostics);
  std::vector<std::string> features() const override { return {layers_.input(), options_.target.text}; }
  std::vector<std::string> metrics() const override { return {"loss"}; }
  ModelOutput build(Context& context, const Features& features) const override;

 private:
  RegressionOptions options_;
  Sequential layers_;
};

}  // namespace mtf
