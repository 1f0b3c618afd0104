// The steps of a run at which optimizer slots began with their initial values: 0, or that of the checkpoint that lacked
// them, after a change of the optimizer or for weights that are trained since then. What follows the age of a slot, as
// Adam's bias correction does, counts its steps from there.
//
//   const SlotBegins begins(3000, {"layer_1/kernel"}, {});
//   begins.of("layer_1/kernel/adam_m");   // 3000
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "engine/graph/graph.h"

namespace mtf {

class SlotBegins {
 public:
  /// All slots began at step 0.
  SlotBegins() = default;
  /// The slots of a run that goes on after `step` from a checkpoint with the variables `saved`: those in `late` began at
  /// these steps, the others that it has at step 0, and those that it lacks begin at `step`.
  SlotBegins(int64_t step, std::set<std::string, std::less<>> saved, std::map<std::string, int64_t> late)
      : step_(step), saved_(std::move(saved)), late_(std::move(late)) {}
  /// The begins are set only after the graph of the update is built, in which each slot is counted by itself.
  static SlotBegins set_later() {
    SlotBegins begins;
    begins.are_known_ = false;
    return begins;
  }

  bool are_known() const { return are_known_; }
  int64_t of(const std::string& slot) const {
    const auto late = late_.find(slot);
    if (late != late_.end()) return late->second;
    return step_ > 0 && !saved_.contains(slot) ? step_ : 0;
  }
  void set(const std::string& slot, int64_t step) { late_[slot] = step; }

 private:
  bool are_known_ = true;
  int64_t step_ = 0;
  std::set<std::string, std::less<>> saved_;
  std::map<std::string, int64_t> late_;
};

/// True for the slots whose begin is kept. The largest magnitudes of codes (slot_blocks.h) go with their codes.
bool has_begin(const Variable& variable);

}  // namespace mtf
