// Which operands come from memory: those that have left the cache because so many other bytes were used since their last
// use. A cache is taken to keep what was used last, and a part of what was used before; each thread has its share of it.
//
//   const ColdOperands cold(program, model);
//   model.seconds(*works.of(instruction), cold.bytes(instruction));
#pragma once

#include <unordered_map>
#include <unordered_set>

#include "engine/spmd/program.h"
#include "trainer/costs/cost_model.h"

namespace mtf {

/// Follows a program that is executed again and again. The time is O(n log n) in its instructions.
class ColdOperands {
 public:
  /// Values in `without_memory` are never stored.
  ColdOperands(const Program& program, const CostModel& model,
               const std::unordered_set<ValueId>& without_memory = {});

  /// The bytes of operands and results that one execution of a local instruction reads or writes in memory.
  double bytes(const Instruction& instruction) const;

 private:
  std::unordered_map<const Instruction*, double> bytes_;
};

}  // namespace mtf
