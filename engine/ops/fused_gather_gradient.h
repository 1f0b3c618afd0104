// The gradient of a look-up, added to another gradient of the same table. A pass over programs
// (engine/spmd/passes/fuse_epilogues.cc) creates it for devices with such a kernel; graphs contain the separate
// operations.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "engine/ops/indexing.h"

namespace mtf {

/// Inputs: dy, ids, and the addend, which has shape and dtype of the table. Each entry is rounded once.
class FusedGatherGradient final : public OperationBase<FusedGatherGradient> {
 public:
  FusedGatherGradient(const GatherGradient& gradient, const Tensor& addend)
      : OperationBase({gradient.input(0), gradient.input(1), addend}, gradient.outputs()),
        dimension(gradient.dimension) {}
  std::string_view name() const override { return "fused_gather_gradient"; }
  std::string attributes() const override { return "dimension=" + dimension; }
  /// The result may overwrite the addend: only rows that an id selects then change.
  std::optional<int> in_place(int) const override { return 2; }

  std::string dimension;
};

}  // namespace mtf
