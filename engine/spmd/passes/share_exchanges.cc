#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "engine/ops/concat.h"
#include "engine/ops/slice.h"
#include "engine/spmd/instruction_uses.h"
#include "engine/spmd/passes/passes.h"
#include "engine/spmd/passes/rewrite_blocks.h"

namespace mtf {
namespace {

/// A result may be kept for later readers if the tensor that it is a part of has this many times its bytes.
constexpr int64_t kSmallPart = 4;

/// Numbers values by how they are made: equal numbers, equal values. Slices, joined parts, views and exchanges of equal
/// values are equal; of all others only the value itself.
class Numbering {
 public:
  explicit Numbering(const Program& program) : program_(program) {}

  int of(ValueId id) {
    if (const auto found = by_value_.find(id); found != by_value_.end()) return found->second;
    const Value& value = program_.values[static_cast<size_t>(id)];
    if (value.alias == kNoValue) return by_value_[id] = next_++;
    const int seen = of(value.alias);
    return by_value_[id] = of_text(fmt::format("view {} {}", described(value), seen));
  }

  /// Numbers the results of an instruction. Instructions come in the order in which they run.
  void add(const Instruction& instruction) {
    const Operation* operation = instruction.is<action::Run>() ? instruction.operation() : nullptr;
    const bool moves =
        dynamic_cast<const DimensionSlice*>(operation) || dynamic_cast<const Concat*>(operation);
    const auto* exchange = instruction.collective<action::Exchange>();
    if ((!moves && !exchange) || instruction.guard != kNoValue) return;
    std::vector<int> inputs;
    for (ValueId id : instruction.inputs) inputs.push_back(of(id));
    const ValueId output = instruction.outputs[0];
    const std::string what =
        exchange ? fmt::format("exchange {} {} {}", exchange->dimension, exchange->offset, exchange->wrap)
                 : fmt::format("{} {}", operation->name(), operation->attributes());
    by_value_[output] = of_text(fmt::format(
        "{} {} {}", what, described(program_.values[static_cast<size_t>(output)]), fmt::join(inputs, " ")));
  }

 private:
  std::string described(const Value& value) const {
    return fmt::format("{} {}", short_name(value.dtype), to_string(value.shape, value.layout, program_.mesh));
  }
  int of_text(const std::string& text) {
    const auto [found, is_new] = by_text_.try_emplace(text, next_);
    next_ += is_new;
    return found->second;
  }

  const Program& program_;
  std::unordered_map<ValueId, int> by_value_;
  std::unordered_map<std::string, int> by_text_;
  int next_ = 0;
};

class Sharing {
 public:
  explicit Sharing(Program& program) : program_(program), numbers_(program) {}

  void run() {
    for_each_block(program_.instructions, [&](auto& block) {
      const auto is_exchange = [](const Instruction& i) {
        return i.collective<action::Exchange>() != nullptr;
      };
      if (std::ranges::count_if(block, is_exchange) > 1) share(block);
    });
    if (replaced_.empty()) return;
    replace_values(program_, replaced_);
    const std::vector<int> uses = count_uses(program_);
    for_each_block(program_.instructions, [&](auto& block) {
      std::erase_if(block, [&](const Instruction& instruction) {
        return instruction.outputs.size() == 1 && dead_.contains(instruction.outputs[0]) &&
               uses[instruction.outputs[0]] == 0;
      });
    });
  }

 private:
  void share(std::vector<Instruction>& block) {
    std::unordered_map<int, ValueId> exchanged;  // by number
    std::erase_if(block, [&](Instruction& instruction) {
      for (ValueId& id : instruction.inputs) replace(id, replaced_);
      numbers_.add(instruction);
      if (dynamic_cast<const DimensionSlice*>(instruction.operation()) && instruction.is<action::Run>())
        slices_[instruction.outputs[0]] = instruction.inputs[0];
      if (!instruction.collective<action::Exchange>()) return false;
      const ValueId input = instruction.inputs[0], output = instruction.outputs[0];
      const auto [first, is_new] = exchanged.try_emplace(numbers_.of(output), output);
      if (is_new || program_.local_bytes(output) * kSmallPart > whole_bytes(input)) return false;
      replaced_[output] = first->second;
      if (slices_.contains(input)) dead_.insert(input);
      return true;
    });
  }

  /// The bytes of the tensor that an exchanged value is a slice of.
  int64_t whole_bytes(ValueId id) const {
    for (auto found = slices_.find(id); found != slices_.end(); found = slices_.find(id)) id = found->second;
    return program_.local_bytes(id);
  }

  Program& program_;
  Numbering numbers_;
  ValueMap replaced_;                            ///< results that an earlier exchange has
  std::unordered_map<ValueId, ValueId> slices_;  ///< the values that slices are parts of
  std::unordered_set<ValueId> dead_;             ///< slices that a dropped exchange read
};

}  // namespace

Program share_exchanges(Program program) {
  Sharing(program).run();
  return program;
}

}  // namespace mtf
