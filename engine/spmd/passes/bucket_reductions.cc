#include <map>
#include <unordered_set>

#include "engine/spmd/instruction_uses.h"
#include "engine/spmd/passes/passes.h"
#include "engine/spmd/passes/rewrite_blocks.h"

namespace mtf {
namespace {

/// A bucket that is being filled. Its all_reduces have been taken out of the block.
struct Bucket {
  Instruction merged;
  int64_t bytes = 0;
  std::unordered_set<ValueId> results;
};

/// The reduced mesh dimensions, the reduction, the type, the copies of the results, and the part of a pipeline.
using BucketKey = std::tuple<AxisMask, Reduction, DType, Copies, int, Phase>;

/// The buckets of a pipeline do not reach beyond a chunk and phase, which are scheduled one by one.
BucketKey key_of(const Instruction& instruction, const action::AllReduce& reduce, const Value& reduced) {
  const Provenance& from = instruction.provenance;
  return {instruction.as<action::Communicate>()->axes,
          reduce.reduction,
          reduced.dtype,
          reduced.copies(),
          from.chunk,
          from.chunk < 0 ? Phase::kForward : from.phase};
}

void bucket_block(const Program& program, std::vector<Instruction>& block, int64_t limit) {
  std::vector<Instruction> result;
  std::map<BucketKey, Bucket> open;
  const auto close = [&result](Bucket& bucket) { result.push_back(std::move(bucket.merged)); };
  for (Instruction& instruction : block) {
    std::vector<ValueId> used = reads(instruction);
    for (ValueId& id : used) id = program.root(id);
    for (auto it = open.begin(); it != open.end();) {
      if (!intersects(used, it->second.results)) {
        ++it;
        continue;
      }
      close(it->second);
      it = open.erase(it);
    }
    const auto* reduce = instruction.collective<action::AllReduce>();
    if (!reduce) {
      result.push_back(std::move(instruction));
      continue;
    }
    const Value& reduced = program.values[instruction.outputs[0]];
    const BucketKey key = key_of(instruction, *reduce, reduced);
    const int64_t bytes = program.local_bytes(instruction.inputs[0]);
    auto found = open.find(key);
    if (found != open.end() && found->second.bytes + bytes > limit) {
      close(found->second);
      open.erase(found);
      found = open.end();
    }
    if (found == open.end()) {
      found = open.emplace(key, Bucket{}).first;
      found->second.merged = instruction;
    } else {
      Instruction& merged = found->second.merged;
      merged.inputs.push_back(instruction.inputs[0]);
      merged.outputs.push_back(instruction.outputs[0]);
    }
    found->second.bytes += bytes;
    found->second.results.insert(instruction.outputs[0]);
    if (found->second.bytes >= limit) {
      close(found->second);
      open.erase(found);
    }
  }
  for (auto& [key, bucket] : open) close(bucket);
  block = std::move(result);
}

}  // namespace

Program bucket_reductions(Program program, int64_t bytes) {
  for_each_block(program.instructions, [&](auto& block) { bucket_block(program, block, bytes); });
  return program;
}

}  // namespace mtf
