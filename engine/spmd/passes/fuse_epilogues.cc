#include <algorithm>
#include <unordered_map>

#include "engine/ops/binary.h"
#include "engine/ops/einsum.h"
#include "engine/ops/fused_einsum.h"
#include "engine/ops/unary.h"
#include "engine/spmd/instruction_uses.h"
#include "engine/spmd/passes/passes.h"

namespace mtf {
namespace {

/// A contraction of this block with the epilogue that has been fused into it.
struct Contraction {
  size_t position = 0;  ///< place of its instruction
  const Einsum* einsum = nullptr;
  Tensor bias;
  bool gelu = false;

  bool is_plain() const { return !bias && !gelu; }
};

/// True if a matrix product can add this bias: its dimensions must be the innermost ones of the result and
/// all come from the same operand.
bool is_bias(const Einsum& einsum, const Tensor& bias) {
  const Shape &result = einsum.outputs()[0].shape, &shape = bias.shape();
  if (shape.rank() == 0 || shape.rank() > result.rank()) return false;
  const ContractionClasses classes = classify(einsum.input(0).shape(), einsum.input(1).shape(), result);
  return std::equal(shape.begin(), shape.end(), result.end() - shape.rank()) &&
         (classes.columns.contains_all(shape) || classes.rows.contains_all(shape));
}

class Fusion {
 public:
  Fusion(Program& program, const std::unordered_map<ValueId, int>& uses, std::vector<Instruction>& block)
      : program_(program), uses_(uses), block_(block), removed_(block.size()) {}

  void run() {
    for (size_t i = 0; i < block_.size(); ++i) {
      if (auto* loop = block_[i].as<action::Loop>()) Fusion(program_, uses_, loop->body).run();
      if (block_[i].guard != kNoValue) continue;
      if (block_[i].is<action::Accumulate>()) {
        accumulate(i);
      } else if (block_[i].is<action::Run>()) {
        if (!add_bias(i) && !add_gelu(i)) remember(i);
      }
    }
    std::vector<Instruction> kept;
    for (size_t i = 0; i < block_.size(); ++i) {
      if (!removed_[i]) kept.push_back(std::move(block_[i]));
    }
    block_ = std::move(kept);
  }

 private:
  void remember(size_t i) {
    const auto* einsum = dynamic_cast<const Einsum*>(block_[i].operation());
    if (einsum) contractions_[block_[i].outputs[0]] = {i, einsum, {}, false};
  }

  /// The contraction that makes `id`, if `result` can replace its result.
  const Contraction* contraction(ValueId id, ValueId result) const {
    const auto found = contractions_.find(id);
    if (found == contractions_.end() || uses_.at(id) != 1) return nullptr;
    const Value &from = program_.values[id], &to = program_.values[result];
    const bool alike = from.shape == to.shape && from.dtype == to.dtype && from.layout == to.layout &&
                       from.varies == to.varies;
    return alike ? &found->second : nullptr;
  }

  bool add_bias(size_t i) {
    const Instruction& instruction = block_[i];
    const auto* binary = dynamic_cast<const Binary*>(instruction.operation());
    if (!binary || binary->function != BinaryFunction::kAdd) return false;
    for (const size_t term : {0, 1}) {
      const Contraction* found = contraction(instruction.inputs[term], instruction.outputs[0]);
      const Tensor& bias = binary->input(static_cast<int>(1 - term));
      if (!found || !found->is_plain() || !has_epilogues(*found) || !is_bias(*found->einsum, bias)) continue;
      Contraction fused = *found;
      fused.bias = bias;
      std::vector<ValueId> operands = block_[fused.position].inputs;
      operands.push_back(instruction.inputs[1 - term]);
      return replace(fused, i, std::move(operands));
    }
    return false;
  }

  bool add_gelu(size_t i) {
    const Instruction& instruction = block_[i];
    const auto* function = dynamic_cast<const Unary*>(instruction.operation());
    if (!function || function->function != UnaryFunction::kGelu) return false;
    const Contraction* found = contraction(instruction.inputs[0], instruction.outputs[0]);
    if (!found || found->gelu || !has_epilogues(*found)) return false;
    Contraction fused = *found;
    fused.gelu = true;
    return replace(fused, i, block_[fused.position].inputs);
  }

  /// True for matrix products in the types for which libraries provide epilogues.
  static bool has_epilogues(const Contraction& contraction) {
    const Einsum& einsum = *contraction.einsum;
    const OutputInfo& output = einsum.outputs()[0];
    const ContractionClasses classes =
        classify(einsum.input(0).shape(), einsum.input(1).shape(), output.shape);
    return output.dtype != DType::kFloat64 && output.dtype == einsum.input(0).dtype() &&
           classes.rows.rank() + classes.columns.rank() > 0;
  }

  /// Replaces the contraction and instruction `reader` by `fused`: at the place of the contraction, or, if an
  /// operand is made in between, at that of `reader`. Returns false if neither is possible.
  bool replace(const Contraction& fused, size_t reader, std::vector<ValueId> operands) {
    Instruction made = block_[reader];
    made.action = action::Run{std::make_shared<FusedEinsum>(*fused.einsum, fused.bias, fused.gelu)};
    made.inputs = std::move(operands);
    const bool early = !writes_between(fused.position, reader, made.inputs);
    if (!early && writes_between(fused.position, reader, block_[fused.position].inputs)) return false;
    const ValueId result = made.outputs[0];
    contractions_[result] = fused;
    contractions_[result].position = early ? fused.position : reader;
    put(std::move(made), fused.position, reader, early);
    return true;
  }

  /// Fuses a contraction into an accumulation. This is safe because nothing else in the loop touches the
  /// total.
  void accumulate(size_t i) {
    const Contraction* found = contraction(block_[i].inputs[0], block_[i].outputs[0]);
    if (!found || !found->is_plain()) return;
    const Instruction& einsum = block_[found->position];
    Instruction made = block_[i];
    made.action = action::Accumulate{einsum.as<action::Run>()->operation};
    made.inputs = einsum.inputs;
    made.provenance = einsum.provenance;
    made.layer = einsum.layer;
    put(std::move(made), found->position, i, true);
  }

  void put(Instruction made, size_t first, size_t second, bool early) {
    block_[early ? first : second] = std::move(made);
    removed_[early ? second : first] = true;
  }

  /// True if an instruction between these two writes one of these values.
  bool writes_between(size_t first, size_t second, const std::vector<ValueId>& ids) const {
    for (size_t i = first + 1; i < second; ++i) {
      if (removed_[i]) continue;
      for (ValueId written : writes(block_[i])) {
        const auto same = [&](ValueId id) { return program_.root(id) == program_.root(written); };
        if (std::ranges::any_of(ids, same)) return true;
      }
    }
    return false;
  }

  Program& program_;
  const std::unordered_map<ValueId, int>& uses_;
  std::vector<Instruction>& block_;
  std::vector<bool> removed_;
  std::unordered_map<ValueId, Contraction> contractions_;  ///< by result value
};

}  // namespace

Program fuse_epilogues(Program program) {
  const std::unordered_map<ValueId, int> uses = count_uses(program);
  Fusion(program, uses, program.instructions).run();
  return program;
}

}  // namespace mtf
