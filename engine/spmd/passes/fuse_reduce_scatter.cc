#include <optional>
#include <unordered_map>

#include "engine/base/check.h"
#include "engine/spmd/instruction_uses.h"
#include "engine/spmd/passes/passes.h"
#include "engine/spmd/passes/rewrite_blocks.h"

namespace mtf {
namespace {

/// Replaces `reduce` (an all_reduce of one value) and the slice of its result by a reduce_scatter, followed
/// by an all_reduce over the remaining mesh dimensions.
std::vector<Instruction> scatter(Program& program, const Instruction& reduce, const Instruction& slice) {
  const ValueId input = reduce.inputs[0], output = slice.outputs[0];
  const auto& reduced_over = *reduce.as<action::Communicate>();
  const auto& sliced = *slice.as<action::Slice>();
  const Reduction reduction = reduce.collective<action::AllReduce>()->reduction;
  Instruction scattered = reduce;
  scattered.action = action::Communicate{action::ReduceScatter{reduction, sliced.dimension}, sliced.axes,
                                         reduced_over.required_by};
  scattered.outputs = {output};
  const AxisMask rest = reduced_over.axes & ~sliced.axes;
  if (!rest) return {scattered};
  Value partial = program.values[output];
  partial.name.clear();
  partial.layout.partial |= rest;
  partial.varies |= rest;
  scattered.outputs = {program.add_value(std::move(partial))};
  Instruction reduced = reduce;
  reduced.as<action::Communicate>()->axes = rest;
  reduced.inputs = scattered.outputs;
  reduced.outputs = {output};
  MTF_CHECK(input != output, "a slice of itself");
  return {scattered, reduced};
}

/// One pass suffices: instructions that replace a slice are themselves examined when it comes to their place.
/// `uses` are those of the values that were there before this pass.
void fuse_block(Program& program, std::vector<Instruction>& block, const std::vector<int>& uses) {
  std::unordered_map<ValueId, size_t> slices;  // by the value that they slice
  for (size_t i = 0; i < block.size(); ++i) {
    if (block[i].is<action::Slice>()) slices.emplace(block[i].inputs[0], i);
  }
  /// The slice that is the only reader of the result of `reduce`, if the two can be fused.
  const auto slice_of = [&](const Instruction& reduce, size_t place) -> std::optional<size_t> {
    if (!reduce.collective<action::AllReduce>() || reduce.outputs.size() != 1) return std::nullopt;
    const ValueId reduced = reduce.outputs[0];
    const auto slice = slices.find(reduced);
    if (reduced >= std::ssize(uses) || uses[reduced] != 1 || slice == slices.end() ||
        slice->second <= place ||
        (block[slice->second].as<action::Slice>()->axes & ~reduce.as<action::Communicate>()->axes)) {
      return std::nullopt;
    }
    return slice->second;
  };
  std::unordered_map<size_t, std::vector<Instruction>> fused;  // by place of the slice
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

}  // namespace

Program fuse_reduce_scatter(Program program) {
  const std::vector<int> uses = count_uses(program);
  for_each_block(program.instructions, [&](auto& block) { fuse_block(program, block, uses); });
  return program;
}

}  // namespace mtf
