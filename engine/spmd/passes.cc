#include "engine/spmd/passes.h"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <optional>
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

/// In one walk: what takes the place of a slice is looked at when the walk comes there.
void fuse_block(Program& program, std::vector<Instruction>& block,
                const std::unordered_map<ValueId, int>& uses) {
  std::unordered_map<ValueId, size_t> slices;  // by what they slice
  for (size_t i = 0; i < block.size(); ++i) {
    if (block[i].kind == InstructionKind::kSlice) slices.emplace(block[i].inputs[0], i);
  }
  /// The slice that alone reads what the instruction at `place` reduces, if both can be one.
  const auto slice_of = [&](const Instruction& reduce, size_t place) -> std::optional<size_t> {
    if (reduce.kind != InstructionKind::kAllReduce || reduce.outputs.size() != 1) return std::nullopt;
    const auto used = uses.find(reduce.outputs[0]);
    const auto slice = slices.find(reduce.outputs[0]);
    if (used == uses.end() || used->second != 1 || slice == slices.end() || slice->second <= place ||
        (block[slice->second].axes & ~reduce.axes)) {
      return std::nullopt;
    }
    return slice->second;
  };
  std::unordered_map<size_t, std::vector<Instruction>> fused;  // by the place of the slice
  std::vector<Instruction> result;
  result.reserve(block.size());
  for (size_t i = 0; i < block.size(); ++i) {
    const auto add = [&](Instruction& instruction) {
      if (const std::optional<size_t> slice = slice_of(instruction, i)) {
        fused[*slice] = scatter(program, instruction, block[*slice]);
      } else {
        result.push_back(std::move(instruction));
      }
    };
    const auto found = fused.find(i);
    if (found == fused.end()) {
      add(block[i]);
    } else {
      for (Instruction& instruction : std::vector<Instruction>(std::move(found->second))) add(instruction);
    }
  }
  block = std::move(result);
}

/// Orders the instructions by their keys.
template <class Key>
void reorder(std::vector<Instruction>& block, const std::vector<Key>& keys) {
  std::vector<size_t> order(block.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&keys](size_t i) -> const Key& { return keys[i]; });
  std::vector<Instruction> result;
  result.reserve(block.size());
  for (const size_t i : order) result.push_back(std::move(block[i]));
  block = std::move(result);
}

void start_early(const Program& program, std::vector<Instruction>& block) {
  // The place of an instruction that has moved is that of the one that it follows, and a number: of several,
  // the last comes first.
  using Place = std::vector<int64_t>;
  std::vector<Place> places;
  std::unordered_map<ValueId, Place> made;  // by root: by its last writer so far
  for (const Instruction& instruction : block) {
    const auto number = static_cast<int64_t>(places.size());
    Place place{number};
    if (instruction.kind == InstructionKind::kAllReduce ||
        instruction.kind == InstructionKind::kReduceScatter) {
      Place ready;
      for (ValueId id : instruction.inputs) {
        const auto found = made.find(program.root(id));
        if (found != made.end()) ready = std::max(ready, found->second);
      }
      // An input that nothing in this block makes is ready at once, but the collective stays where it is
      // wanted.
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

bool is_parameter_gather(const Program& program, const Instruction& instruction) {
  return instruction.kind == InstructionKind::kAllGather &&
         program.values[instruction.inputs[0]].storage == Value::Storage::kVariable &&
         instruction.provenance.phase != Phase::kUpdate;
}

void gather_ahead(const Program& program, std::vector<Instruction>& block, int layers) {
  // Instructions of one phase and layer that follow each other, gathers aside.
  struct Run {
    Phase phase;
    int layer;
    size_t begin;  ///< number of its first instruction, gathers not counted
    size_t first;  ///< the run from which on all are of the same phase, each of a layer
  };
  std::vector<Run> runs;
  std::vector<size_t> places;  // twice the number of an instruction, or one less: a gather in front of it
  size_t others = 0;
  for (const Instruction& instruction : block) {
    const Provenance& from = instruction.provenance;
    if (!is_parameter_gather(program, instruction)) {
      if (runs.empty() || runs.back().phase != from.phase || runs.back().layer != from.layer) {
        const bool continues =
            !runs.empty() && runs.back().phase == from.phase && runs.back().layer >= 0 && from.layer >= 0;
        runs.push_back({from.phase, from.layer, others, continues ? runs.back().first : runs.size()});
      }
      places.push_back(2 * ++others);
      continue;
    }
    size_t before = others;
    if (from.layer >= 0 && !runs.empty() && runs.back().phase == from.phase && runs.back().layer >= 0) {
      const size_t ahead = static_cast<size_t>(layers) + (runs.back().layer == from.layer ? 1 : 0);
      const size_t possible = runs.size() - runs.back().first;
      if (ahead > 0) before = runs[runs.size() - std::min(ahead, possible)].begin;
    }
    places.push_back(2 * before + 1);
  }
  reorder(block, places);
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
  const std::unordered_map<ValueId, int> uses = count_uses(program);
  for_each_block(program.instructions, [&](auto& block) { fuse_block(program, block, uses); });
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

Program set_memory_orders(Program program) {
  for (Value& value : program.values) {
    for (int i = 0; i < value.shape.rank(); ++i) value.order[i] = i;
  }
  return program;
}

}  // namespace mtf
