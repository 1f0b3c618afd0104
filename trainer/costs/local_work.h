// What a process does for each local instruction of a program: how often it calls the kernel, with what work, and how much of
// that comes from memory.
//
//   LocalWork local(program, model);
//   const ProcessWork work = local.of(instruction, model.count(computed_over(program, instruction, replicates)));
//   model.seconds(work.work, work.cold);
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "engine/spmd/program.h"
#include "engine/spmd/work.h"
#include "trainer/costs/cold_operands.h"
#include "trainer/costs/cost_model.h"

namespace mtf {

/// On a processor, positions of a process multiply by a matrix that they share in one call, and sums of their products are made
/// in one, as the kernels for JointPositions do.
class LocalWork {
 public:
  LocalWork(const Program& program, const CostModel& model);

  /// The work of an instruction that WorkFinder knows and that is no collective, of whose results the process has `copies`.
  ProcessWork of(const Instruction& instruction, int64_t copies);
  /// True for a collective within the process whose total is made by the instruction that makes its terms.
  bool is_made_with_terms(const Instruction& instruction) const;

 private:
  void find_sums();
  void keep_sums_of_kernels(const std::vector<Instruction>& block);
  void join_rows(const Instruction& instruction, ProcessWork& work) const;
  void join_terms(const Instruction& reduction, ProcessWork& work) const;

  const Program& program_;
  const CostModel& model_;
  WorkFinder works_;
  std::map<ValueId, const Instruction*> sums_;  ///< by term: the all_reduce whose total is made in its place
  std::optional<ColdOperands> cold_;
};

}  // namespace mtf
