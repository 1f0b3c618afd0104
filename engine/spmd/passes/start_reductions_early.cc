#include <algorithm>
#include <unordered_map>

#include "engine/spmd/instruction_uses.h"
#include "engine/spmd/passes/passes.h"
#include "engine/spmd/passes/rewrite_blocks.h"

namespace mtf {
namespace {

void start_early(const Program& program, std::vector<Instruction>& block) {
  // The place of an instruction that has moved consists of the place of the one that it follows and a number.
  // If several follow the same one, the last of them comes first.
  using Place = std::vector<int64_t>;
  std::vector<Place> places;
  std::unordered_map<ValueId, Place> made;  // by root: place of its last writer so far
  for (const Instruction& instruction : block) {
    const auto number = static_cast<int64_t>(places.size());
    Place place{number};
    if (instruction.collective<action::AllReduce>() || instruction.collective<action::ReduceScatter>()) {
      Place ready;
      for (ValueId id : instruction.inputs) {
        const auto found = made.find(program.root(id));
        if (found != made.end()) ready = std::max(ready, found->second);
      }
      // If nothing in this block makes an input, it is ready at once; the collective then stays where its
      // result is wanted.
      if (!ready.empty()) {
        ready.push_back(-number);
        place = std::move(ready);
      }
    }
    for (ValueId id : writes(instruction)) {
      Place& last = made[program.root(id)];
      if (last < place) last = place;
    }
    places.push_back(std::move(place));
  }
  reorder(block, places);
}

}  // namespace

Program start_reductions_early(Program program) {
  for_each_block(program.instructions, [&](auto& block) { start_early(program, block); });
  return program;
}

}  // namespace mtf
