// Operations of one kind on different tensors, done as one. Made by a pass over programs
// (engine/spmd/passes/group_updates.cc) for devices that start one kernel for all; graphs have the operations
// one by one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/graph/operation.h"

namespace mtf {

/// Inputs and outputs are those of the members, one member after the other.
class MultiTensor final : public OperationBase<MultiTensor> {
 public:
  using Members = std::vector<std::shared_ptr<const Operation>>;

  /// Of one name and kernel_dtype(); none reads what another makes.
  explicit MultiTensor(Members members);
  std::string_view name() const override { return "multi_tensor"; }
  /// "51 adam_update".
  std::string attributes() const override;
  std::optional<int> in_place(int output) const override;

  const Members& members() const { return members_; }

 private:
  Members members_;
};

}  // namespace mtf
