// Several operations of one kind on different tensors, run as one. Passes over programs
// (engine/spmd/passes/group_updates.cc, group_casts.cc) create it for devices that start one kernel for all of
// them; graphs contain the separate operations.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/graph/operation.h"

namespace mtf {

/// The inputs and outputs are those of the members, one member after the other.
class MultiTensor final : public OperationBase<MultiTensor> {
 public:
  using Members = std::vector<std::shared_ptr<const Operation>>;

  /// All members have the same name and kernel_dtype(); none reads what another one writes.
  explicit MultiTensor(Members members);
  std::string_view name() const override { return "multi_tensor"; }
  /// Returns for example "51 adam_update".
  std::string attributes() const override;
  std::optional<int> in_place(int output) const override;

  const Members& members() const { return members_; }

 private:
  Members members_;
};

}  // namespace mtf
