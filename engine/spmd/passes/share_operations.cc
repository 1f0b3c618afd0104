#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <string>
#include <unordered_map>

#include "engine/spmd/instruction_uses.h"
#include "engine/spmd/passes/passes.h"
#include "engine/spmd/passes/rewrite_blocks.h"

namespace mtf {
namespace {

/// The repeated operations of one block.
class RepeatedOperations {
 public:
  /// `replaced` receives, for each result that an earlier instruction makes as well, that instruction's result.
  RepeatedOperations(const Program& program, std::vector<Instruction>& block, ValueMap& replaced)
      : program_(program), block_(block), replaced_(replaced) {
    for (size_t i = 0; i < block.size(); ++i) {
      for (ValueId id : reads(block[i])) last_read_[program.root(id)] = i;
    }
    for (const auto& [name, id] : program.outputs)
      last_read_[program.root(id)] = std::numeric_limits<size_t>::max();
  }

  void run() {
    size_t i = 0;
    std::erase_if(block_, [&](Instruction& instruction) {
      const size_t place = i++;
      for (ValueId& id : instruction.inputs) replace(id, replaced_);
      const bool is_repeated = is_pure(instruction) && share(instruction, place);
      for (ValueId id : writes(instruction)) ++written_[program_.root(id)];
      return is_repeated;
    });
  }

 private:
  struct Made {
    ValueId id = kNoValue;
    Phase phase = Phase::kForward;
  };

  /// True for elementwise operations but dropout: their step, operands and result type say all about them.
  static bool is_pure(const Instruction& instruction) {
    if (!instruction.is<action::Run>() || instruction.guard != kNoValue) return false;
    const std::optional<ElementwiseStep> step = instruction.operation()->elementwise_step();
    return step && step->kind != ElementwiseStep::Kind::kDropout;
  }

  /// Equal for instructions with equal results. An operand that has been written since is another one.
  std::string key_of(const Instruction& instruction) const {
    const Operation& operation = *instruction.operation();
    const Value& result = program_.values[instruction.outputs[0]];
    const ElementwiseStep step = *operation.elementwise_step();
    std::string key = fmt::format("{} {} {} {} {} {} {}", operation.name(), static_cast<int>(step.kind),
                                  step.function, step.parameter.value_or(0), short_name(result.dtype),
                                  to_string(result.shape, result.layout, program_.mesh), result.varies);
    for (ValueId id : instruction.inputs) {
      const auto found = written_.find(program_.root(id));
      key += fmt::format(" {}:{}", id, found == written_.end() ? 0 : found->second);
    }
    return key;
  }

  /// Makes later instructions read the earlier result, if there is one that may live until then. Returns
  /// whether it did.
  bool share(const Instruction& instruction, size_t place) {
    const ValueId output = instruction.outputs[0];
    const auto [found, is_new] =
        made_.try_emplace(key_of(instruction), Made{output, instruction.provenance.phase});
    if (is_new) return false;
    const Made& first = found->second;
    const bool both_forward =
        first.phase == Phase::kForward && instruction.provenance.phase == Phase::kForward;
    if (!both_forward && program_.local_bytes(output) > kSharedBytes && last_read_[first.id] < place) {
      found->second = {output, instruction.provenance.phase};
      return false;
    }
    replaced_[output] = first.id;
    last_read_[first.id] = std::max(last_read_[first.id], last_read_[output]);
    return true;
  }

  const Program& program_;
  std::vector<Instruction>& block_;
  ValueMap& replaced_;
  std::unordered_map<ValueId, size_t> last_read_;  ///< by root
  std::unordered_map<ValueId, int> written_;       ///< by root: number of writes so far
  std::unordered_map<std::string, Made> made_;
};

}  // namespace

Program share_operations(Program program) {
  ValueMap replaced;
  for_each_block(program.instructions,
                 [&](auto& block) { RepeatedOperations(program, block, replaced).run(); });
  replace_values(program, replaced);
  return program;
}

}  // namespace mtf
