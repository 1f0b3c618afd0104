#include "engine/runtime/position_sums.h"

#include <unordered_map>
#include <vector>

#include "engine/ops/einsum.h"
#include "engine/runtime/collective_of.h"
#include "engine/spmd/instruction_uses.h"

namespace mtf {
namespace {

class SumFinder {
 public:
  SumFinder(const Program& program, const HostedMesh& mesh)
      : program_(program), mesh_(mesh), uses_(count_uses(program)) {}

  void block(const std::vector<Instruction>& instructions) {
    std::unordered_map<ValueId, const Instruction*> products;  // of this block, by result
    for (const Instruction& instruction : instructions) {
      block(instruction.body());
      if (is_product(instruction)) products.emplace(instruction.outputs[0], &instruction);
      if (!is_sum(instruction)) continue;
      for (size_t i = 0; i < instruction.inputs.size(); ++i) {
        const ValueId term = instruction.inputs[i], total = instruction.outputs[i];
        if (products.contains(term) && has_memory(term) && has_memory(total) && uses_[term] == 1)
          sums_[term] = {total, &instruction};
      }
    }
  }
  std::map<ValueId, PositionSum> take() { return std::move(sums_); }

 private:
  static bool is_product(const Instruction& instruction) {
    return instruction.is<action::Run>() && instruction.guard == kNoValue &&
           dynamic_cast<const Einsum*>(instruction.operation()) != nullptr;
  }
  /// True for sums within each process.
  bool is_sum(const Instruction& instruction) const {
    const auto* reduce = instruction.collective<action::AllReduce>();
    return reduce != nullptr && reduce->reduction == Reduction::kSum && instruction.guard == kNoValue &&
           !crosses_processes(program_, instruction, mesh_, false);
  }
  /// True if the value is a temporary in memory of its own, on all positions.
  bool has_memory(ValueId id) const {
    const Value& value = program_.values[id];
    return value.storage == Value::Storage::kTemporary && value.alias == kNoValue && !value.on_host &&
           !value.layout.pin;
  }

  const Program& program_;
  const HostedMesh& mesh_;
  std::vector<int> uses_;  ///< readers of each value
  std::map<ValueId, PositionSum> sums_;
};

}  // namespace

std::map<ValueId, PositionSum> position_sums(const Program& program, const HostedMesh& mesh, bool replicate) {
  if (replicate || mesh.positions() == 1) return {};
  SumFinder finder(program, mesh);
  finder.block(program.instructions);
  return finder.take();
}

}  // namespace mtf
