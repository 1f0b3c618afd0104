#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "engine/graph/structural.h"
#include "engine/ops/fused_elementwise.h"
#include "engine/ops/random.h"
#include "engine/spmd/instruction_uses.h"
#include "engine/spmd/passes/block_uses.h"
#include "engine/spmd/passes/fused_instruction.h"
#include "engine/spmd/passes/passes.h"

namespace mtf {
namespace {

/// Places of instructions in their block, ascending.
using Members = std::vector<size_t>;

/// Elementwise instructions that will become one, at the place of one of them.
struct FusedGroup {
  size_t place = 0;
  Members members;
};

/// The fusions of one block. The block is changed only after all of them are known.
class ElementwiseFusion {
 public:
  ElementwiseFusion(Program& program, const std::vector<int>& uses, std::vector<Instruction>& block)
      : program_(program), uses_(uses), block_(block), block_uses_(program, block), owner_(block.size()) {
    for (size_t i = 0; i < block.size(); ++i) {
      owner_[i] = i;
      if (!is_member(block[i])) continue;
      for (ValueId id : block[i].inputs) ++elementwise_reads_[id];
    }
  }

  void run() {
    for (size_t i = 0; i < block_.size(); ++i) {
      if (auto* loop = block_[i].as<action::Loop>()) ElementwiseFusion(program_, uses_, loop->body).run();
      if (!is_member(block_[i])) continue;
      FusedGroup& fusion = fusions_[i] = {i, {i}};
      while (absorb_one(fusion)) {
      }
    }
    replace();
  }

 private:
  static bool is_member(const Instruction& instruction) {
    return instruction.is<action::Run>() && instruction.guard == kNoValue &&
           instruction.outputs.size() == 1 && instruction.operation()->elementwise_step();
  }
  bool is_constant(size_t member) const {
    return dynamic_cast<const Constant*>(block_[member].operation()) != nullptr;
  }

  std::vector<const Instruction*> instructions(const Members& members) const {
    std::vector<const Instruction*> result;
    for (size_t member : members) result.push_back(&block_[member]);
    return result;
  }
  std::vector<ValueId> operands(const Members& members) const { return operands_of(instructions(members)); }
  int64_t reads_of(const Members& members, ValueId id) const {
    int64_t count = 0;
    for (size_t member : members) count += std::ranges::count(block_[member].inputs, id);
    return count;
  }
  ValueId last_result(const FusedGroup& fusion) const { return block_[fusion.members.back()].outputs[0]; }
  /// The values made by the members that are read elsewhere. The result of the last member comes first.
  std::vector<ValueId> results(const Members& members) const {
    std::vector<ValueId> ids{block_[members.back()].outputs[0]};
    for (size_t member : members) {
      const ValueId id = block_[member].outputs[0];
      if (member == members.back() || is_constant(member)) continue;
      if (reads_of(members, id) != uses_[id]) ids.push_back(id);
    }
    return ids;
  }

  /// Merges one fusion that makes an operand into `fusion`, if possible. Returns whether it did.
  bool absorb_one(FusedGroup& fusion) {
    for (ValueId id : operands(fusion.members)) {
      const std::optional<size_t> maker = block_uses_.maker(id);
      const auto found = maker ? fusions_.find(owner_[*maker]) : fusions_.end();
      if (found == fusions_.end() || last_result(found->second) != id) continue;
      const FusedGroup& before = found->second;
      if (is_constant(*maker) ? absorb_constant(fusion, before) : absorb(fusion, before)) return true;
    }
    return false;
  }

  /// Puts a copy of the constant into the fusion that reads it. The constant itself disappears if only
  /// elementwise operations read it.
  bool absorb_constant(FusedGroup& fusion, const FusedGroup& constant) {
    const ValueId id = last_result(constant);
    Members members{constant.members[0]};
    members.insert(members.end(), fusion.members.begin(), fusion.members.end());
    std::ranges::sort(members);
    if (elementwise_reads_.at(id) != uses_[id] || !is_small(members)) return false;
    fusion.members = std::move(members);
    return true;
  }

  bool absorb(FusedGroup& fusion, const FusedGroup& before) {
    if (!are_alike(last_result(before), last_result(fusion))) return false;
    Members members;
    std::ranges::set_union(before.members, fusion.members, std::back_inserter(members));
    const std::vector<ValueId> made = results(members);
    // Either all results of an instruction go into variables or none.
    const bool updates =
        std::ranges::any_of(made, [&](ValueId id) { return block_uses_.copied_to(id) != kNoValue; });
    if (!is_small(members) || (updates && made.size() > 1)) return false;
    const std::optional<size_t> place = common_place(fusion, before, members);
    if (!place) return false;
    block_uses_.move(operands(members), made, *place);
    fusions_.erase(before.members.back());
    for (size_t member : members) {
      if (!is_constant(member)) owner_[member] = fusion.members.back();
    }
    fusion = {*place, std::move(members)};
    return true;
  }

  bool are_alike(ValueId a, ValueId b) const {
    const Value &from = program_.values[a], &to = program_.values[b];
    return from.shape == to.shape && from.layout == to.layout && from.varies == to.varies;
  }

  bool is_small(const Members& members) const {
    const Shape& shape = program_.values[block_[members.back()].outputs[0]].shape;
    const std::vector<ValueId> inputs = operands(members);
    const auto repeated =
        std::ranges::count_if(inputs, [&](ValueId id) { return program_.values[id].shape != shape; });
    const auto dropouts = std::ranges::count_if(members, [&](size_t member) {
      return dynamic_cast<const Dropout*>(block_[member].operation()) != nullptr;
    });
    return std::ssize(inputs) <= FusedElementwise::kMostInputs &&
           repeated <= FusedElementwise::kMostRepeated && dropouts <= FusedElementwise::kMostDropouts &&
           std::ssize(members) <= FusedElementwise::kMostSteps &&
           std::ssize(results(members)) <= FusedElementwise::kMostResults;
  }

  /// The place at which the merged fusion with these members can run: that of the later fusion, or else that
  /// of the earlier one.
  std::optional<size_t> common_place(const FusedGroup& fusion, const FusedGroup& before,
                                     const Members& members) const {
    const size_t first = before.place, second = fusion.place;
    if (block_uses_.are_separated(first, second)) return std::nullopt;
    const ValueId between = last_result(before), last = last_result(fusion);
    const std::vector<ValueId> made = results(members), first_operands = operands(before.members);
    const bool stays = std::ranges::find(made, between) != made.end();
    const int64_t freed = stays ? 0 : program_.local_bytes(between);
    if (!block_uses_.is_written(first_operands, first, second) && are_read_after(made, members, second) &&
        (are_neighbours(fusion, before) || block_uses_.prolonged_bytes(first_operands, second) <= freed)) {
      return second;
    }
    // A variable's new value must not be computed before it is known whether the update takes place.
    if (results(fusion.members).size() > 1 || block_uses_.copied_to(last) != kNoValue ||
        program_.local_bytes(last) > freed) {
      return std::nullopt;
    }
    std::vector<ValueId> others = operands(fusion.members);
    std::erase(others, between);
    const bool known = std::ranges::all_of(others, [&](ValueId id) {
      const std::optional<size_t> maker = block_uses_.maker(id);
      return !maker || *maker < first;
    });
    return known && !block_uses_.is_written(others, first, second) ? std::optional(first) : std::nullopt;
  }

  /// True if all readers of these values other than the members come after `place`.
  bool are_read_after(const std::vector<ValueId>& ids, const Members& members, size_t place) const {
    return std::ranges::all_of(ids, [&](ValueId id) {
      return std::ranges::all_of(block_uses_.readers(id), [&](size_t reader) {
        if (std::ranges::binary_search(members, reader)) return true;
        const auto fusion = fusions_.find(owner_[reader]);
        return (fusion == fusions_.end() ? reader : fusion->second.place) > place;
      });
    });
  }

  /// True if nothing but members of the two fusions stands between their places.
  bool are_neighbours(const FusedGroup& fusion, const FusedGroup& before) const {
    for (size_t i = before.place + 1; i < fusion.place; ++i) {
      if (owner_[i] != fusion.members.back() && owner_[i] != before.members.back()) return false;
    }
    return true;
  }

  /// Replaces the members of each fusion that has several by one instruction.
  void replace() {
    std::vector<const FusedGroup*> placed(block_.size());
    std::vector<bool> removed(block_.size());
    std::unordered_map<size_t, int64_t> absorbed;  // number of uses of each constant
    for (const auto& [last, fusion] : fusions_) {
      if (fusion.members.size() < 2) continue;
      placed[fusion.place] = &fusion;
      for (size_t member : fusion.members) {
        removed[member] = !is_constant(member);
        if (is_constant(member)) absorbed[member] += reads_of(fusion.members, block_[member].outputs[0]);
      }
    }
    for (const auto& [constant, count] : absorbed)
      removed[constant] = count == uses_[block_[constant].outputs[0]];
    block_uses_.forget_last_reads();
    for (size_t i = 0; i < block_.size(); ++i) {
      if (placed[i]) {
        block_uses_.move(operands(placed[i]->members), {}, i);
      } else if (!removed[i]) {
        block_uses_.move(reads(block_[i]), {}, i);
      }
    }
    std::vector<Instruction> kept;
    for (size_t i = 0; i < block_.size(); ++i) {
      if (placed[i]) {
        kept.push_back(fused_instruction(instructions(placed[i]->members), with_overwritten(*placed[i])));
      } else if (!removed[i]) {
        kept.push_back(block_[i]);
      }
    }
    block_ = std::move(kept);
  }

  /// The results of the fusion, each with the operand that it may overwrite: the variable that takes the
  /// result, or else an operand that nothing reads later.
  std::vector<FusionResult> with_overwritten(const FusedGroup& fusion) const {
    std::vector<FusionResult> made;
    std::unordered_set<ValueId> taken;
    for (ValueId id : results(fusion.members)) {
      FusionResult result{id, kNoValue};
      for (ValueId operand : operands(fusion.members)) {
        const bool fits =
            are_alike(operand, id) && program_.values[operand].dtype == program_.values[id].dtype;
        const bool dies =
            block_uses_.dies_at(operand, fusion.place) && !taken.contains(program_.root(operand));
        const bool is_target = operand == block_uses_.copied_to(id);
        if (fits && (is_target || (dies && result.overwritten == kNoValue))) result.overwritten = operand;
        if (fits && is_target) break;
      }
      if (result.overwritten != kNoValue) taken.insert(program_.root(result.overwritten));
      made.push_back(result);
    }
    return made;
  }

  Program& program_;
  const std::vector<int>& uses_;
  std::vector<Instruction>& block_;
  BlockUses block_uses_;
  std::unordered_map<size_t, FusedGroup> fusions_;  ///< by last member
  std::vector<size_t> owner_;                       ///< by place: key of the fusion that contains it
  std::unordered_map<ValueId, int> elementwise_reads_;
};

}  // namespace

Program fuse_elementwise(Program program) {
  const std::vector<int> uses = count_uses(program);
  ElementwiseFusion(program, uses, program.instructions).run();
  return program;
}

}  // namespace mtf
