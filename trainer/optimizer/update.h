// The update part of a training step as graph: norm of the gradients, clipping, the test for finite values,
// and the optimizer's assignments, all guarded by that test.
//
//   const Update update = add_update(graph, loss, gradients, {optimizer, learning_rate, total_steps});
//   for (const StepScalar& s : update.scalars) executor.feed_scalar(s.input, s.value(step));   // before each
//   step
//
// Everything runs in the layout of optimizer slots (Domain::kOptimizer).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/graph/graph.h"
#include "trainer/optimizer/optimizer.h"
#include "trainer/optimizer/schedules.h"
#include "trainer/optimizer/slot_begins.h"

namespace mtf {

/// The gradient of the loss with respect to a variable; null: the loss does not depend on it.
struct VariableGradient {
  const Variable* variable;
  Tensor gradient;
  int64_t first_element = 0;  ///< index of the variable's first element in the weight of which it is a part
};

struct UpdateOptions {
  Optimizer optimizer;
  std::vector<Schedule> learning_rate;   ///< product; empty: Adafactor's own
  int64_t total_steps = 1;               ///< planned length of the run, for schedules
  std::optional<double> ema_decay = {};  ///< keeps running means of the weights (averages.h), in float32
  /// Adds the input kProceed ([], bool): no variable changes unless it holds. Steps that a device begins before
  /// the host has looked at the one before then change nothing after one that is not finite.
  bool runs_ahead = false;
  /// The names of all weights in the order of the model, where the graph has some of them (parameter servers); empty:
  /// those of the graph.
  std::vector<std::string> weights = {};
  DType slot_type = DType::kFloat32;  ///< type of optimizer slots in memory: precision.slots
  bool slots_on_host = false;         ///< they lie in the host's memory: offload.slots
  /// The steps at which slots began; null: all at step 0. The graph has one count for the slots that begin at the same step.
  /// Update::scalars read the steps anew each time, so that they may change as long as those slots have the same begin.
  std::shared_ptr<SlotBegins> begins = {};
};

inline constexpr const char* kProceed = "proceed";

struct Update {
  Tensor grad_norm;  ///< [], float32: root of the sum of squares of all gradients, before clipping
  Tensor finite;     ///< [], bool: loss and grad_norm are finite (and kProceed); if not, no variable changes
  std::vector<StepScalar> scalars;
};

/// The sum of squares of each gradient ([], float64), of which the norm is made, without those that are null.
Tensors gradient_squares(Graph& graph, const std::vector<VariableGradient>& gradients);

/// Appends the update of all variables that have a gradient, and of the running means of all variables in
/// `gradients`. Names of slots: docs/file_formats.md "Names of variables".
/// Gradients are clipped to clip_norm: g * clip_norm / max(norm, clip_norm). Weight decay spares the variables that match
/// a pattern of no_decay. The formulas are those of the optimizers (optimizers/*.cc).
///
/// `squares`: of the gradients of all variables, where `gradients` are some of them (parameter servers);
/// empty: of these.
Update add_update(Graph& graph, const Tensor& loss, const std::vector<VariableGradient>& gradients,
                  const UpdateOptions& options, Tensors squares = {});

/// The learning rate of a step.
double learning_rate_at(const UpdateOptions& options, int64_t step);

}  // namespace mtf
