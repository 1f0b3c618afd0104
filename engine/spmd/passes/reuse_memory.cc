#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "engine/spmd/instruction_uses.h"
#include "engine/spmd/passes/passes.h"

namespace mtf {
namespace {

/// Turns copies into variables into updates in place.
class VariableUpdates {
 public:
  explicit VariableUpdates(Program& program)
      : program_(program),
        block_(program.instructions),
        last_read_(program.values.size(), kNowhere),
        wanted_(program.values.size()),
        producer_(program.values.size(), kNowhere),
        ready_(program.values.size(), kNowhere) {
    for (size_t i = 0; i < block_.size(); ++i) {
      for_each_read(block_[i], [&](ValueId id) { last_read_[program_.root(id)] = i; });
      if (block_[i].is<action::Done>()) {
        for (ValueId id : block_[i].inputs) ready_[id] = i;
      }
      for (ValueId id : block_[i].outputs) {
        if (producer_[id] == kNowhere) producer_[id] = i;
        ready_[id] = i;
      }
    }
    for (const auto& [name, id] : program.outputs) want(id, kNoValue);
    for (auto instruction = block_.rbegin(); instruction != block_.rend(); ++instruction)
      want_operands(*instruction);
  }

  void run() {
    std::unordered_map<size_t, std::vector<size_t>> copies_of;  // by producer: the copies of its results
    for (size_t i = 0; i < block_.size(); ++i) {
      if (!is_variable_copy(block_[i])) continue;
      const size_t producer = producer_[block_[i].inputs[0]];
      if (producer != kNowhere) copies_of[producer].push_back(i);
    }
    std::unordered_set<size_t> removed;
    for (const auto& [producer, copies] : copies_of) {
      if (!replaceable(producer, copies)) continue;
      for (size_t copy : copies) {
        program_.values[block_[copy].inputs[0]].alias = block_[copy].outputs[0];
        block_[producer].guard = block_[copy].guard;
        removed.insert(copy);
      }
    }
    if (removed.empty()) return;
    size_t i = 0;
    std::erase_if(block_, [&](const Instruction&) { return removed.contains(i++); });
  }

 private:
  bool is_variable_copy(const Instruction& instruction) const {
    return instruction.is<action::Copy>() &&
           program_.values[instruction.outputs[0]].storage == Value::Storage::kVariable;
  }

  void want(ValueId id, ValueId guard) {
    std::optional<ValueId>& known = wanted_[program_.root(id)];
    known = !known || *known == guard ? guard : kNoValue;
  }

  /// Marks the operands of `instruction` as wanted wherever it runs and one of its results is wanted. All
  /// readers of its results must have been visited.
  void want_operands(const Instruction& instruction) {
    if (instruction.is<action::Done>()) return;
    ValueId guard = instruction.guard;
    if (!instruction.is<action::Loop>() && guard == kNoValue) {
      std::optional<ValueId> common;
      for (ValueId id : instruction.outputs) {
        const ValueId root = program_.root(id);
        const bool is_temporary = program_.values[root].storage == Value::Storage::kTemporary;
        if (is_temporary && !wanted_[root]) continue;
        const ValueId of_output = is_temporary ? *wanted_[root] : kNoValue;
        common = !common || *common == of_output ? of_output : kNoValue;
      }
      if (!common) return;
      guard = *common;
    }
    for_each_read(instruction, [&](ValueId id) { want(id, id == instruction.guard ? kNoValue : guard); });
  }

  /// True if every result of the producer goes into a variable whose old value nothing reads any more, under
  /// one guard that is known before the producer runs.
  bool replaceable(size_t producer, const std::vector<size_t>& copies) const {
    const Instruction& instruction = block_[producer];
    if (instruction.is<action::Loop>() || instruction.guard != kNoValue ||
        copies.size() != instruction.outputs.size()) {
      return false;
    }
    std::set<ValueId> copied;
    for (size_t copy : copies) copied.insert(program_.root(block_[copy].inputs[0]));
    if (copied.size() != copies.size()) return false;
    const ValueId guard = block_[copies[0]].guard;
    if (guard != kNoValue) {
      const size_t known = ready_[program_.root(guard)];
      if (known != kNowhere && known >= producer) return false;
    }
    return std::all_of(copies.begin(), copies.end(), [&](size_t copy) {
      return block_[copy].guard == guard && fits(producer, block_[copy]);
    });
  }

  bool fits(size_t producer, const Instruction& copy) const {
    const Instruction& instruction = block_[producer];
    const ValueId result = copy.inputs[0], variable = copy.outputs[0];
    const Value& from = program_.values[result];
    const Value& to = program_.values[variable];
    if (from.storage != Value::Storage::kTemporary || from.alias != kNoValue ||
        from.copies() != to.copies() || from.layout != to.layout || from.dtype != to.dtype) {
      return false;
    }
    // Other readers may need a guarded result even where the guard does not hold.
    if (copy.guard != kNoValue && wanted_[result] != copy.guard) return false;
    const size_t last = last_read_[variable];
    if (last == kNowhere || last < producer) return true;
    if (last > producer || !instruction.is<action::Run>()) return false;
    // The producer itself reads the old value, so it must be able to overwrite exactly that operand.
    const auto position = std::find(instruction.outputs.begin(), instruction.outputs.end(), result);
    const std::optional<int> operand =
        instruction.operation()->in_place(static_cast<int>(position - instruction.outputs.begin()));
    return operand && instruction.inputs[*operand] == variable &&
           std::count_if(instruction.inputs.begin(), instruction.inputs.end(),
                         [&](ValueId id) { return program_.root(id) == variable; }) == 1;
  }

  static constexpr size_t kNowhere = std::numeric_limits<size_t>::max();

  Program& program_;
  std::vector<Instruction>& block_;
  // By value:
  std::vector<size_t> last_read_;
  /// By root: the guard under which alone the value is wanted, kNoValue if it is always wanted; nothing: it is not.
  std::vector<std::optional<ValueId>> wanted_;
  std::vector<size_t> producer_;
  std::vector<size_t> ready_;  ///< index of the instruction after which a value can be read
};

/// Lets results take over the memory of operands that die. Values in `fixed` must keep memory of their own.
void reuse_operands(Program& program, std::vector<Instruction>& block,
                    const std::unordered_set<ValueId>& fixed) {
  std::vector<size_t> last_read(program.values.size());
  std::vector<bool> made(program.values.size());
  for (size_t i = 0; i < block.size(); ++i)
    for_each_read(block[i], [&](ValueId id) { last_read[program.root(id)] = i; });
  for (size_t i = 0; i < block.size(); ++i) {
    Instruction& instruction = block[i];
    if (auto* loop = instruction.as<action::Loop>()) reuse_operands(program, loop->body, fixed);
    if (instruction.is<action::Run>() && instruction.guard == kNoValue) {
      for (size_t k = 0; k < instruction.outputs.size(); ++k) {
        const ValueId output = instruction.outputs[k];
        const std::optional<int> operand = instruction.operation()->in_place(static_cast<int>(k));
        if (!operand || program.values[output].alias != kNoValue || fixed.contains(output)) continue;
        const ValueId input = instruction.inputs[*operand], root = program.root(input);
        if (!made[root] || fixed.contains(root) || last_read[root] != i) continue;
        if (program.values[root].copies() != program.values[output].copies() ||
            program.local_bytes(root) != program.local_bytes(output) || root == output) {
          continue;
        }
        if (std::count_if(instruction.inputs.begin(), instruction.inputs.end(),
                          [&](ValueId id) { return program.root(id) == root; }) != 1) {
          continue;
        }
        program.values[output].alias = root;  // not the operand itself: chains would grow with the program
        last_read[root] = std::max(last_read[root], last_read[output]);
      }
    }
    for (ValueId id : instruction.outputs) made[id] = true;
  }
}

/// Collects accumulators, carried values and assembled batches: they are written more than once, or read by
/// the next iteration.
void collect_fixed(const std::vector<Instruction>& block, std::unordered_set<ValueId>& fixed) {
  for (const Instruction& instruction : block) {
    if (instruction.is<action::Copy>() || instruction.is<action::Accumulate>() ||
        instruction.is<action::Place>()) {
      fixed.insert(instruction.outputs.begin(), instruction.outputs.end());
    }
    collect_fixed(instruction.body(), fixed);
  }
}

}  // namespace

Program reuse_memory(Program program) {
  VariableUpdates(program).run();
  std::unordered_set<ValueId> fixed;
  collect_fixed(program.instructions, fixed);
  for (const auto& [name, id] : program.outputs) fixed.insert(program.root(id));
  reuse_operands(program, program.instructions, fixed);
  return program;
}

}  // namespace mtf
