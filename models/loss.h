// Losses of predictions by name. A loss is one file of losses/:
//
//   Tensor mean_squared_error(const LossInputs& in) { return square(subtract(in.prediction, in.target)); }
//   const LossRegistration squared("mean_squared_error", LossTarget::kNumbers, mean_squared_error, {"mse", "l2"});
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/config/schema.h"
#include "engine/graph/tensor.h"

namespace mtf {

/// What a loss compares the prediction with: numbers of the same shape, or the numbers of classes.
enum class LossTarget { kNumbers, kClasses };

struct LossInputs {
  Tensor prediction;  ///< float32 [batch, ...]
  Tensor target;      ///< float32, the prediction's shape; of classes int32, without the dimension `classes`
  std::string classes = {};    ///< the dimension of the classes
  double label_smoothing = 0;  ///< part of the target that is spread over all classes
  double z_loss = 0;           ///< factor of log_z^2
};

/// A file-scope object that makes a loss known. `loss` gives float32 of the target's shape. `common_names`: what other
/// programs call it, literals.
class LossRegistration {
 public:
  LossRegistration(std::string_view name, LossTarget target, Tensor (*loss)(const LossInputs&),
                   std::vector<std::string_view> common_names = {});
};

/// One loss by name, or several with weights.
using LossOptions = std::variant<std::string, config::Named<double>>;
/// The key `loss`; legal names are those of the losses of such targets.
void describe_loss(config::Visitor& visit, LossOptions& options, LossTarget target);
/// The sum of weight * loss: float32 of the target's shape.
Tensor weighted_loss(const LossOptions& options, const LossInputs& inputs);

}  // namespace mtf
