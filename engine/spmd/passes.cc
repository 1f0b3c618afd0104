#include "engine/spmd/passes.h"

#include <algorithm>
#include <bit>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "engine/core/check.h"

namespace mtf {
namespace {

/// Applies `rewrite` to every block, bodies first.
template <class Rewrite>
void for_each_block(std::vector<Instruction>& block, const Rewrite& rewrite) {
  for (Instruction& instruction : block) {
    if (instruction.kind == InstructionKind::kRepeat) for_each_block(instruction.body, rewrite);
  }
  rewrite(block);
}

bool intersects(const std::vector<ValueId>& ids, const std::unordered_set<ValueId>& set) {
  return std::any_of(ids.begin(), ids.end(), [&set](ValueId id) { return set.contains(id); });
}

void collect(const Instruction& instruction, std::vector<ValueId>& ids, bool outputs) {
  const std::vector<ValueId>& own = outputs ? instruction.outputs : instruction.inputs;
  ids.insert(ids.end(), own.begin(), own.end());
  if (!outputs) {
    ids.insert(ids.end(), instruction.kept.begin(), instruction.kept.end());
    if (instruction.guard != kNoValue) ids.push_back(instruction.guard);
  }
  for (const Instruction& inner : instruction.body) collect(inner, ids, outputs);
}

/// Replaces `reduce` (all_reduce of one value) and the slice of its result by a reduce_scatter, followed by
/// an all_reduce over the mesh dimensions that are left.
std::vector<Instruction> scatter(Program& program, const Instruction& reduce, const Instruction& slice) {
  const ValueId input = reduce.inputs[0], output = slice.outputs[0];
  Instruction scattered = reduce;
  scattered.kind = InstructionKind::kReduceScatter;
  scattered.axes = slice.axes;
  scattered.dimension = slice.dimension;
  scattered.outputs = {output};
  const AxisMask rest = reduce.axes & ~slice.axes;
  if (!rest) return {scattered};
  Value partial = program.values[output];
  partial.name.clear();
  partial.layout.partial |= rest;
  partial.varies |= rest;
  scattered.outputs = {program.add_value(std::move(partial))};
  Instruction reduced = reduce;
  reduced.axes = rest;
  reduced.inputs = scattered.outputs;
  reduced.outputs = {output};
  MTF_CHECK(input != output, "a slice of itself");
  return {scattered, reduced};
}

bool fuse_one(Program& program, std::vector<Instruction>& block,
              const std::unordered_map<ValueId, int>& uses) {
  for (size_t i = 0; i < block.size(); ++i) {
    const Instruction reduce = block[i];
    if (reduce.kind != InstructionKind::kAllReduce || reduce.outputs.size() != 1) continue;
    const auto used = uses.find(reduce.outputs[0]);
    if (used == uses.end() || used->second != 1) continue;
    for (size_t j = i + 1; j < block.size(); ++j) {
      const Instruction& slice = block[j];
      if (slice.kind != InstructionKind::kSlice || slice.inputs[0] != reduce.outputs[0] ||
          (slice.axes & ~reduce.axes)) {
        continue;
      }
      const std::vector<Instruction> fused = scatter(program, reduce, Instruction(slice));
      block.erase(block.begin() + static_cast<std::ptrdiff_t>(j));
      block.erase(block.begin() + static_cast<std::ptrdiff_t>(i));
      block.insert(block.begin() + static_cast<std::ptrdiff_t>(j) - 1, fused.begin(), fused.end());
      return true;
    }
  }
  return false;
}

void start_early(const Program& program, std::vector<Instruction>& block) {
  std::vector<Instruction> result;
  for (Instruction& instruction : block) {
    size_t at = result.size();
    if (instruction.kind == InstructionKind::kAllReduce ||
        instruction.kind == InstructionKind::kReduceScatter) {
      std::unordered_set<ValueId> inputs;
      for (ValueId id : instruction.inputs) inputs.insert(program.root(id));
      while (at > 0) {
        std::vector<ValueId> made = writes(result[at - 1]);
        for (ValueId& id : made) id = program.root(id);
        if (intersects(made, inputs)) break;
        --at;
      }
      // An input that nothing in this block makes is ready at once, but the collective stays where it is
      // wanted.
      if (at == 0) at = result.size();
    }
    result.insert(result.begin() + static_cast<std::ptrdiff_t>(at), std::move(instruction));
  }
  block = std::move(result);
}

bool is_parameter_gather(const Program& program, const Instruction& instruction) {
  return instruction.kind == InstructionKind::kAllGather &&
         program.values[instruction.inputs[0]].storage == Value::Storage::kVariable &&
         instruction.provenance.phase != Phase::kUpdate;
}

void gather_ahead(const Program& program, std::vector<Instruction>& block, int layers) {
  std::vector<Instruction> result;
  for (Instruction& instruction : block) {
    size_t at = result.size();
    if (is_parameter_gather(program, instruction) && instruction.provenance.layer >= 0) {
      int layer = instruction.provenance.layer, crossed = 0;
      for (size_t i = result.size(); i > 0; --i) {
        const Instruction& before = result[i - 1];
        if (is_parameter_gather(program, before)) continue;
        if (before.provenance.phase != instruction.provenance.phase || before.provenance.layer < 0) break;
        if (before.provenance.layer != layer && ++crossed > layers) break;
        layer = before.provenance.layer;
        at = i - 1;
      }
    }
    result.insert(result.begin() + static_cast<std::ptrdiff_t>(at), std::move(instruction));
  }
  block = std::move(result);
}

/// A bucket that is being filled: its all_reduces have been taken out of the block.
struct Bucket {
  Instruction merged;
  int64_t bytes = 0;
  std::unordered_set<ValueId> results;
};

/// Mesh dimensions that are reduced, kind, type, and the mesh dimensions over which the results vary.
using BucketKey = std::tuple<AxisMask, Reduction, DType, AxisMask>;

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
    if (instruction.kind != InstructionKind::kAllReduce) {
      result.push_back(std::move(instruction));
      continue;
    }
    const Value& reduced = program.values[instruction.outputs[0]];
    const BucketKey key{instruction.axes, instruction.reduction, reduced.dtype, reduced.varies};
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

AxisMask varies(const Program& program, const Instruction& instruction) {
  AxisMask mask = 0;
  for (ValueId id : instruction.inputs) mask |= program.values[id].varies;
  for (ValueId id : instruction.outputs) mask |= program.values[id].varies;
  return mask;
}

/// Reorders block[begin, end): repeatedly everything that is ready and varies over the same dimensions as the
/// first.
void group_window(const Program& program, std::vector<Instruction>& block, size_t begin, size_t end) {
  std::vector<Instruction> pending(
      std::make_move_iterator(block.begin() + static_cast<std::ptrdiff_t>(begin)),
      std::make_move_iterator(block.begin() + static_cast<std::ptrdiff_t>(end)));
  size_t out = begin;
  while (!pending.empty()) {
    const AxisMask mask = varies(program, pending.front());
    std::unordered_set<ValueId> unmade;  // results of instructions that are passed over
    std::vector<Instruction> rest;
    for (Instruction& instruction : pending) {
      std::vector<ValueId> used = reads(instruction);
      for (ValueId& id : used) id = program.root(id);
      if (varies(program, instruction) == mask && !intersects(used, unmade)) {
        block[out++] = std::move(instruction);
      } else {
        for (ValueId id : instruction.outputs) unmade.insert(program.root(id));
        rest.push_back(std::move(instruction));
      }
    }
    pending = std::move(rest);
  }
}

void split_block(const Program& program, std::vector<Instruction>& block) {
  std::vector<Instruction> result;
  std::unordered_set<ValueId> waiting;
  const auto wait = [&](const std::vector<ValueId>& ids) {
    Instruction done;
    done.kind = InstructionKind::kDone;
    for (ValueId id : ids) {
      if (waiting.erase(id)) done.inputs.push_back(id);
    }
    if (!done.inputs.empty()) result.push_back(std::move(done));
  };
  for (Instruction& instruction : block) {
    std::vector<ValueId> used = reads(instruction);
    for (ValueId& id : used) id = program.root(id);
    wait(used);
    if (instruction.is_collective()) {
      instruction.started = true;
      waiting.insert(instruction.outputs.begin(), instruction.outputs.end());
    }
    result.push_back(std::move(instruction));
  }
  std::vector<ValueId> rest(waiting.begin(), waiting.end());
  std::sort(rest.begin(), rest.end());
  wait(rest);
  block = std::move(result);
}

}  // namespace

std::vector<ValueId> reads(const Instruction& instruction) {
  std::vector<ValueId> ids;
  collect(instruction, ids, false);
  return ids;
}

std::vector<ValueId> writes(const Instruction& instruction) {
  std::vector<ValueId> ids;
  collect(instruction, ids, true);
  return ids;
}

std::unordered_map<ValueId, int> count_uses(const Program& program) {
  std::unordered_map<ValueId, int> uses;
  for (const Instruction& instruction : program.instructions) {
    for (ValueId id : reads(instruction)) ++uses[id];
  }
  for (const auto& [name, id] : program.outputs) ++uses[id];
  for (const Value& value : program.values) {
    if (value.alias != kNoValue) ++uses[value.alias];
  }
  return uses;
}

Program fuse_reduce_scatter(Program program) {
  for (bool changed = true; changed;) {
    changed = false;
    const std::unordered_map<ValueId, int> uses = count_uses(program);
    for_each_block(program.instructions, [&](std::vector<Instruction>& block) {
      changed = changed || fuse_one(program, block, uses);
    });
  }
  return program;
}

Program start_reductions_early(Program program) {
  for_each_block(program.instructions, [&](auto& block) { start_early(program, block); });
  return program;
}

Program schedule_gathers(Program program, int layers) {
  for_each_block(program.instructions, [&](auto& block) { gather_ahead(program, block, layers); });
  return program;
}

Program bucket_reductions(Program program, int64_t bytes) {
  for_each_block(program.instructions, [&](auto& block) { bucket_block(program, block, bytes); });
  return program;
}

Program group_segments(Program program) {
  for_each_block(program.instructions, [&](std::vector<Instruction>& block) {
    for (size_t begin = 0; begin < block.size();) {
      size_t end = begin;
      while (end < block.size() && block[end].kind == InstructionKind::kLocal) ++end;
      group_window(program, block, begin, end);
      begin = end + 1;
    }
  });
  return program;
}

Program split_collectives(Program program) {
  for_each_block(program.instructions, [&](auto& block) { split_block(program, block); });
  return program;
}

Program keep_operands(Program program) {
  for_each_block(program.instructions, [](std::vector<Instruction>& block) {
    std::unordered_map<ValueId, const Instruction*> makers;
    for (Instruction& instruction : block) {
      if (instruction.is_collective()) {
        for (ValueId id : instruction.outputs) makers[id] = &instruction;
      } else if (instruction.kind == InstructionKind::kDone) {
        for (ValueId id : instruction.inputs) {
          const std::vector<ValueId>& operands = makers.at(id)->inputs;
          instruction.kept.insert(instruction.kept.end(), operands.begin(), operands.end());
        }
      }
    }
  });
  return program;
}

Program set_memory_orders(Program program) {
  for (Value& value : program.values) {
    for (int i = 0; i < value.shape.rank(); ++i) value.order[i] = i;
  }
  return program;
}

}  // namespace mtf
