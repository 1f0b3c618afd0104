// Element-wise operations done in one pass over memory. Made by a pass over programs
// (engine/spmd/passes/fuse_elementwise.cc) for devices that make kernels for them; graphs have the operations one
// by one.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/graph/operation.h"

namespace mtf {

/// Values are numbered: first the inputs, then the results of the steps, the last of which is the output.
/// Each result is rounded to its dtype as if it went through memory.
class FusedElementwise final : public OperationBase<FusedElementwise> {
 public:
  struct Step {
    std::shared_ptr<const Operation> operation;
    std::vector<int> operands;  ///< numbers of values
  };

  /// An output: a value, and the input whose memory it may take.
  struct Result {
    int value = 0;
    std::optional<int> overwritten;
  };

  /// Inputs have some of the outputs' dimensions.
  FusedElementwise(const Tensors& inputs, std::vector<Step> steps, std::vector<Result> results);
  std::string_view name() const override { return "fused_elementwise"; }
  bool is_groupable() const override { return true; }
  /// "#2 = dropout(#0, rate=0.1, name=a/dropout); #3 = add(#2, #1)"; of several results "; results #3, #2".
  std::string attributes() const override;
  std::optional<int> in_place(int output) const override {
    return results_[static_cast<size_t>(output)].overwritten;
  }

  const std::vector<Step>& steps() const { return steps_; }
  const std::vector<Result>& results() const { return results_; }
  /// Largest numbers of inputs, of inputs that are repeated along a dimension, of dropouts, of steps, and of
  /// results: kernels hold an element of each, and the way to it.
  static constexpr int kMostInputs = 8, kMostRepeated = 4, kMostDropouts = 2, kMostSteps = 24,
                       kMostResults = 3;

 private:
  std::vector<Step> steps_;
  std::vector<Result> results_;
};

}  // namespace mtf
