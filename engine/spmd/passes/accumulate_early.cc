#include <cstddef>
#include <unordered_map>
#include <vector>

#include "engine/spmd/instruction_uses.h"
#include "engine/spmd/passes/passes.h"
#include "engine/spmd/passes/rewrite_blocks.h"

namespace mtf {
namespace {

void accumulate_early(const Program& program, std::vector<Instruction>& block) {
  struct Maker {
    size_t place;
    bool is_collective;
  };
  std::vector<size_t> places;  // of instructions that stay or, for others, of those that they follow
  std::unordered_map<ValueId, Maker> made;  // by root: the last writer so far
  for (size_t i = 0; i < block.size(); ++i) {
    const Instruction& instruction = block[i];
    size_t place = i;
    const auto* const accumulate = instruction.as<action::Accumulate>();
    const bool adds_term =
        accumulate != nullptr && accumulate->operation == nullptr;  // else it makes what it adds
    const auto term = adds_term ? made.find(program.root(instruction.inputs[0])) : made.end();
    // Nothing else in the loop touches the total.
    if (term != made.end() && !term->second.is_collective) place = term->second.place;
    for (ValueId id : writes(instruction)) made[program.root(id)] = {place, instruction.is_collective()};
    places.push_back(place);
  }
  reorder(block, places);
}

}  // namespace

Program accumulate_early(Program program) {
  for_each_block(program.instructions, [&](auto& block) { accumulate_early(program, block); });
  return program;
}

}  // namespace mtf
