#include <algorithm>

#include "engine/spmd/passes/passes.h"
#include "engine/spmd/passes/rewrite_blocks.h"

namespace mtf {
namespace {

bool is_parameter_gather(const Program& program, const Instruction& instruction) {
  return instruction.collective<action::AllGather>() &&
         program.values[instruction.inputs[0]].storage == Value::Storage::kVariable &&
         instruction.provenance.phase != Phase::kUpdate;
}

void gather_ahead(const Program& program, std::vector<Instruction>& block, int layers) {
  // A run of consecutive instructions of one phase and layer, not counting gathers.
  struct Run {
    Phase phase;
    int layer;
    size_t begin;  ///< number of its first instruction, not counting gathers
    /// The index of the run from which on all runs have the same phase and belong to layers.
    size_t first;
  };
  std::vector<Run> runs;
  // The sort key of each instruction: twice its number, or one less for a gather in front of it.
  std::vector<size_t> places;
  size_t others = 0;
  for (const Instruction& instruction : block) {
    const Phase phase = instruction.provenance.phase;
    const int layer = instruction.layer;
    if (!is_parameter_gather(program, instruction)) {
      if (runs.empty() || runs.back().phase != phase || runs.back().layer != layer) {
        const bool continues =
            !runs.empty() && runs.back().phase == phase && runs.back().layer >= 0 && layer >= 0;
        runs.push_back({phase, layer, others, continues ? runs.back().first : runs.size()});
      }
      places.push_back(2 * ++others);
      continue;
    }
    size_t before = others;
    if (layer >= 0 && !runs.empty() && runs.back().phase == phase && runs.back().layer >= 0) {
      const size_t ahead = static_cast<size_t>(layers) + (runs.back().layer == layer ? 1 : 0);
      const size_t possible = runs.size() - runs.back().first;
      if (ahead > 0) before = runs[runs.size() - std::min(ahead, possible)].begin;
    }
    places.push_back(2 * before + 1);
  }
  reorder(block, places);
}

}  // namespace

Program schedule_gathers(Program program, int layers) {
  for_each_block(program.instructions, [&](auto& block) { gather_ahead(program, block, layers); });
  return program;
}

}  // namespace mtf
