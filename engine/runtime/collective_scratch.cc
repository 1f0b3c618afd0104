#include "engine/runtime/collective_scratch.h"

#include <algorithm>
#include <map>
#include <utility>

#include "engine/comm/device/block_pool.h"
#include "engine/comm/device/device_plan.h"

namespace mtf {
namespace {

/// Simulates the scratch blocks that a run takes and gives back.
class ScratchCounter {
 public:
  ScratchCounter(const Program& program, const CollectiveScratchOptions& options, BlockPool& pool)
      : program_(program),
        options_(options),
        pool_(pool),
        scratch_({program.mesh, options.hosting}, options.replicate) {}

  void run(const std::vector<Instruction>& block) {
    for (const Instruction& instruction : block) {
      if (instruction.is<action::Done>()) {
        for (const ValueId id : instruction.inputs) finish(id);
      } else if (instruction.is_collective()) {
        start(instruction);
      } else {
        for (int64_t i = 0; i < std::min(instruction.count(), kTurns); ++i) run(instruction.body());
      }
    }
  }

  static constexpr int64_t kTurns = 2;  ///< enough: later iterations reuse the blocks of the first ones

 private:
  struct Started {
    int64_t bytes = 0;
    int block = BlockPool::kNone;
    bool is_running = false;
  };

  void start(const Instruction& instruction) {
    const auto [known, is_new] = started_.try_emplace(&instruction);
    Started& started = known->second;
    if (is_new) started.bytes = scratch_.bytes(program_, instruction);
    started.block = pool_.take(started.bytes, started.block);
    started.is_running = true;
    for (const ValueId id : instruction.outputs) maker_[id] = &started;
    if (!options_.overlap) finish(instruction.outputs.front());
  }

  void finish(ValueId id) {
    const auto found = maker_.find(id);
    if (found == maker_.end() || !std::exchange(found->second->is_running, false)) return;
    pool_.give_back(found->second->block);
  }

  const Program& program_;
  const CollectiveScratchOptions& options_;
  BlockPool& pool_;
  CollectiveScratch scratch_;
  std::map<const Instruction*, Started> started_;
  std::map<ValueId, Started*> maker_;
};

}  // namespace

int64_t CollectiveScratch::bytes(const Program& program, const Instruction& instruction) {
  const auto [known, is_new] = known_.try_emplace(request_of(program, instruction, replicate_), 0);
  if (!is_new) return known->second;
  if (const auto planned = collectives_.of(program, instruction))
    known->second = plan_on_device(planned->parts, planned->process, planned->processes).scratch_bytes;
  return known->second;
}

int64_t collective_scratch_bytes(std::span<const Program* const> programs,
                                 const CollectiveScratchOptions& options) {
  BlockPool pool;
  for (const Program* program : programs) {
    ScratchCounter counter(*program, options, pool);
    for (int64_t turn = 0; turn < ScratchCounter::kTurns; ++turn) counter.run(program->instructions);
  }
  return pool.bytes();
}

}  // namespace mtf
