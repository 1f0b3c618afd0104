#include "engine/spmd/work.h"

#include <algorithm>
#include <array>

#include "engine/ops/multi_tensor.h"

namespace mtf {
namespace {

constexpr std::array<std::string_view, 20> kMovements = {"assign_slots",
                                                         "broadcast",
                                                         "combine",
                                                         "concat",
                                                         "dispatch",
                                                         "dynamic_shift",
                                                         "dynamic_update_slice",
                                                         "gather",
                                                         "gather_gradient",
                                                         "one_hot",
                                                         "pad",
                                                         "range",
                                                         "reduce_first_gradient",
                                                         "shift",
                                                         "slice",
                                                         "split",
                                                         "stack",
                                                         "transpose",
                                                         "unstack",
                                                         "update_kv_cache"};

WorkKind kind_of(const Operation& operation, double flops) {
  const std::string_view name = operation.name();
  if (name.starts_with("attention")) return WorkKind::kAttention;
  if (flops > 0) return WorkKind::kProduct;
  if (const auto* group = dynamic_cast<const MultiTensor*>(&operation))
    return kind_of(*group->members().front(), 0);
  if (std::ranges::find(kMovements, name) != kMovements.end()) return WorkKind::kMovement;
  if (name == "fused_elementwise" || operation.elementwise_step()) return WorkKind::kElementwise;
  const bool is_norm = name.find("norm") != std::string_view::npos || name == "moments" || name == "affine";
  return is_norm ? WorkKind::kNorm : WorkKind::kReduction;
}

double bytes_of(const Program& program, const std::vector<ValueId>& ids) {
  double bytes = 0;
  for (const ValueId id : ids) bytes += static_cast<double>(program.local_bytes(id));
  return bytes;
}

/// Returns the bytes that a movement touches. An operand whose memory the result takes stays where it is: the
/// other operands are read and written to it. Of a table, a lookup reads as much as it writes.
double bytes_moved(const Program& program, const Instruction& instruction, std::string_view name) {
  const double results = bytes_of(program, instruction.outputs);
  double operands = 0, others = 0;
  bool in_place = false;
  for (const ValueId id : instruction.inputs) {
    const bool stays = std::ranges::any_of(
        instruction.outputs, [&](ValueId output) { return program.root(output) == program.root(id); });
    in_place |= stays;
    operands += static_cast<double>(program.local_bytes(id));
    if (!stays) others += static_cast<double>(program.local_bytes(id));
  }
  if (in_place) return 2 * others;
  if (name == "gather" || name == "slice") return 2 * results;
  return operands + results;
}

/// Returns the bytes of an instruction without an operation.
double bytes_of_move(const Program& program, const Instruction& instruction) {
  // A microbatch is placed into the batch; a sum reads its term and the total.
  if (instruction.is<action::Place>()) return 2 * bytes_of(program, instruction.inputs);
  return (instruction.is<action::Accumulate>() ? 3 : 2) * bytes_of(program, instruction.outputs);
}

}  // namespace

std::string_view name_of(WorkKind kind) {
  constexpr std::array<std::string_view, kWorkKinds> names = {
      "products", "attention", "elementwise", "norms", "reductions", "movement", "updates", "collectives"};
  return names[static_cast<size_t>(kind)];
}

std::optional<Work> work_of(const Program& program, const Instruction& instruction) {
  if (instruction.is<action::Loop>() || instruction.is<action::Done>()) return std::nullopt;
  if (instruction.is_collective()) return Work{WorkKind::kCollective, 0, bytes_sent(program, instruction)};
  const bool updates = instruction.provenance.phase == Phase::kUpdate;
  Work work;
  if (const Operation* operation = instruction.operation()) {
    std::vector<Shape> inputs, outputs;
    for (const ValueId id : instruction.inputs) inputs.push_back(program.local_shape(id));
    for (const ValueId id : instruction.outputs) outputs.push_back(program.local_shape(id));
    work.flops = operation->cost(inputs, outputs).flops;
    work.kind = kind_of(*operation, work.flops);
    work.bytes = work.kind == WorkKind::kMovement
                     ? bytes_moved(program, instruction, operation->name())
                     : bytes_of(program, instruction.inputs) + bytes_of(program, instruction.outputs);
    if (instruction.is<action::Accumulate>()) work.bytes += bytes_of(program, instruction.outputs);
  } else {
    work.kind = instruction.is<action::Accumulate>() ? WorkKind::kElementwise : WorkKind::kMovement;
    work.bytes = bytes_of_move(program, instruction);
  }
  if (updates && !has_flops(work.kind)) work.kind = WorkKind::kUpdate;
  return work;
}

}  // namespace mtf
