// A sequence of elementwise operations that runs in one pass over memory. A pass over programs
// (engine/spmd/passes/fuse_elementwise.cc) creates it for devices that generate kernels for it; graphs
// contain the separate operations.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/graph/operation.h"

namespace mtf {

/// Values have numbers: first the inputs, then the results of the steps. Each result is rounded to its dtype,
/// as if it were stored in memory.
class FusedElementwise final : public OperationBase<FusedElementwise> {
 public:
  struct Step {
    std::shared_ptr<const Operation> operation;
    std::vector<int> operands;  ///< numbers of the values
  };

  /// An output: the number of its value, and the input whose memory it may overwrite.
  struct Result {
    int value = 0;
    std::optional<int> overwritten;
  };

  /// The inputs have some of the outputs' dimensions.
  FusedElementwise(const Tensors& inputs, std::vector<Step> steps, std::vector<Result> results);
  std::string_view name() const override { return "fused_elementwise"; }
  bool is_groupable() const override { return true; }
  /// Returns "#2 = dropout(#0, rate=0.1, name=a/dropout); #3 = add(#2, #1)", followed by "; results #3, #2"
  /// if there are several outputs.
  std::string attributes() const override;
  std::optional<int> in_place(int output) const override {
    return results_[static_cast<size_t>(output)].overwritten;
  }

  const std::vector<Step>& steps() const { return steps_; }
  const std::vector<Result>& results() const { return results_; }
  /// The largest numbers of inputs, of inputs that are repeated along a dimension, of dropouts, of steps and
  /// of outputs, because kernels hold an element of each, and its address.
  static constexpr int kMostInputs = 8, kMostRepeated = 4, kMostDropouts = 2, kMostSteps = 24,
                       kMostResults = 3;

 private:
  std::vector<Step> steps_;
  std::vector<Result> results_;
};

}  // namespace mtf
