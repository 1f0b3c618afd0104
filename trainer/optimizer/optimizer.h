// Optimizers: how the weights follow the gradients (section `optimizer`). Each optimizer is one file of optimizers/ with
// its options, its slots, its formula and its registration:
//
//   struct Sgd final : OptimizerOptions {
//     static constexpr std::string_view type_name = "sgd";
//     Tensor update(UpdateContext& context, const WeightUpdate& w) const override {
//       return sgd_update(w.weight, w.gradient, context.learning_rate());
//     }
//   };
//   void describe(config::Visitor& visit, Sgd& options) { describe_common(visit, options); }
//   const config::Registration<OptimizerOptions, Sgd> sgd;
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/config/choice.h"
#include "engine/graph/graph.h"
#include "layers/context.h"
#include "trainer/optimizer/rules.h"

namespace mtf {

class SlotBegins;

/// The input with the learning rate.
inline constexpr std::string_view kLearningRateInput = "optimizer/learning_rate";

/// One weight and its gradient, which is clipped already.
struct WeightUpdate {
  const Variable& variable;
  Tensor weight;
  Tensor gradient;
  double decay = 0;  ///< the weight decay of this variable
};

/// What a slot holds, which says how it is stored in 8 bits (precision.slots: int8).
enum class SlotValues {
  kSigned,
  kPositive,  ///< no negative values: running means of squares
  kExact,     ///< values that 8 bits would spoil (bases): bfloat16 is the least
};

/// What an optimizer works with while it adds its updates to the graph.
class UpdateContext {
 public:
  /// Slots change only where `guard` (bool, 0-dimensional) holds. What has to be fed goes to `scalars`. Slots are stored as
  /// `slot_type`, float32, bfloat16 or int8 (trainer/optimizer/slot_blocks.h), with `slots_on_host` in the host's
  /// memory. `begins`: of the slots; null: all begin at step 0.
  UpdateContext(Graph& graph, const Tensor& guard, std::vector<StepScalar>& scalars,
                DType slot_type = DType::kFloat32, bool slots_on_host = false,
                std::shared_ptr<const SlotBegins> begins = {})
      : graph_(graph),
        guard_(guard),
        scalars_(scalars),
        slot_type_(slot_type),
        slots_on_host_(slots_on_host),
        begins_(std::move(begins)) {}

  Graph& graph() { return graph_; }
  /// A 0-dimensional float32 input that is fed with value(step); one input for each name.
  Tensor scalar(std::string_view name, const std::function<double(int64_t step)>& value,
                bool is_rate = false);
  /// Likewise for the slots of this name: the input is fed with value(step - the step at which the slot began). One input for
  /// each name and begin.
  Tensor scalar_of_slot(const std::string& slot, std::string_view name,
                        const std::function<double(int64_t step)>& value);
  /// The learning rate of the step (0-dimensional) for the weight in hand, times `scale`.
  Tensor learning_rate(double scale = 1);
  /// The updates that follow have the rate that is fed as input `name`, times `scale`.
  void use_learning_rate(std::string_view name, const std::function<double(int64_t step)>& rate,
                         double scale = 1);

  /// A variable beside the weights that begins with zeros. Names: docs/file_formats.md "Names of variables".
  const Variable& slot(const std::string& name, const Shape& shape, SlotValues values = SlotValues::kSigned);
  /// The running mean of a weight: float32, and where weights are.
  const Variable& mean(const std::string& name, const Shape& shape);
  /// A slot as float32.
  Tensor read(const Variable& slot);
  /// A slot as it is stored, for operations that widen and round it themselves (engine/ops/optimizer_updates.h); codes of 8
  /// bits as float32.
  Tensor stored(const Variable& slot);
  /// The weight in hand is a part of a larger one and begins at its element `first`: its slots are rounded as those of the
  /// whole are.
  void use_first_element(int64_t first) { first_element_ = first; }
  int64_t first_element() const { return first_element_; }
  /// Sets a weight or a slot. The float32 value of a narrower slot is rounded at random (engine/ops/stochastic_cast.h,
  /// slot_code.h).
  void assign(const Variable& variable, const Tensor& value);

  /// updated - learning rate * decay * weight, for updates that do not have the decoupled weight decay built in.
  Tensor decayed(const Tensor& updated, const WeightUpdate& w);

 private:
  const Variable& add_slot(const std::string& name, const Shape& shape, DType dtype);

  Graph& graph_;
  const Tensor guard_;
  std::vector<StepScalar>& scalars_;
  const DType slot_type_;
  const bool slots_on_host_;
  const std::shared_ptr<const SlotBegins> begins_;
  int64_t first_element_ = 0;
  std::map<std::string, Tensor, std::less<>> inputs_;
  std::string rate_;  ///< the input in use
  double rate_scale_ = 1;
  std::map<std::pair<std::string, double>, Tensor> scaled_rates_;
};

/// The options that all optimizers have, and what an optimizer does.
struct OptimizerOptions {
  static constexpr std::string_view default_type = "adafactor";
  std::optional<double> clip_norm;
  double weight_decay = 0;
  std::vector<std::string> no_decay = {"bias", "scale"};
  std::vector<OptimizerRule> rules;
  std::optional<double> layer_decay;

  virtual ~OptimizerOptions() = default;
  /// Appends the update of one variable and of its slots; returns the new value of the weight. Weight decay is
  /// decoupled (Loshchilov and Hutter 2019): w -= learning rate * decay * w on top.
  virtual Tensor update(UpdateContext& context, const WeightUpdate& w) const = 0;
  /// The learning rate of a step where the configuration gives none; nothing: it has to.
  virtual std::optional<double> own_learning_rate(int64_t /*step*/) const { return std::nullopt; }
  /// Each element of a weight is updated from its own gradient and slots alone, so that a weight can be cut.
  virtual bool is_elementwise() const { return true; }
};
using Optimizer = config::Choice<OptimizerOptions>;

/// The keys that all optimizers have.
void describe_common(config::Visitor& visit, OptimizerOptions& options);

/// The bounds of the decay rate of a running mean.
inline constexpr config::Bounds kDecayRate{0.0, 0.9999999};

}  // namespace mtf
