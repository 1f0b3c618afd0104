#include <algorithm>
#include <unordered_map>

#include "engine/graph/structural.h"
#include "engine/ops/binary.h"
#include "engine/ops/einsum.h"
#include "engine/ops/fused_einsum.h"
#include "engine/ops/fused_gather_gradient.h"
#include "engine/ops/unary.h"
#include "engine/spmd/instruction_uses.h"
#include "engine/spmd/passes/block_uses.h"
#include "engine/spmd/passes/passes.h"

namespace mtf {
namespace {

/// An operation of this block that can do more: a contraction, with the epilogue that has been fused into it, or
/// the gradient of a look-up, which can have an addend.
struct Extensible {
  size_t position = 0;             ///< place of its instruction
  const Einsum* einsum = nullptr;  ///< null: a look-up's gradient
  EinsumEpilogue epilogue = {};

  bool is_plain_product() const {
    return einsum && !epilogue.bias && !epilogue.addend && !epilogue.activation;
  }
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

/// True for matrix products, which can have an addend; false for inner products.
bool is_matrix_product(const Einsum& einsum) {
  const ContractionClasses classes =
      classify(einsum.input(0).shape(), einsum.input(1).shape(), einsum.outputs()[0].shape);
  return classes.rows.rank() + classes.columns.rank() > 0;
}

/// True for matrix products in the types for which libraries have a bias and activations.
bool has_epilogues(const Einsum& einsum) {
  const DType dtype = einsum.outputs()[0].dtype;
  return dtype != DType::kFloat64 && dtype == einsum.input(0).dtype() && is_matrix_product(einsum);
}

class Fusion {
 public:
  Fusion(Program& program, const std::vector<int>& uses, std::vector<Instruction>& block)
      : program_(program), uses_(uses), block_(block), block_uses_(program, block), removed_(block.size()) {}

  void run() {
    for (size_t i = 0; i < block_.size(); ++i) {
      if (auto* loop = block_[i].as<action::Loop>()) Fusion(program_, uses_, loop->body).run();
      if (block_[i].guard != kNoValue) continue;
      if (block_[i].is<action::Accumulate>()) {
        accumulate(i);
      } else if (block_[i].is<action::Run>()) {
        if (!add_bias(i) && !add_terms(i) && !activate(i)) remember(i);
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
    const Operation* operation = block_[i].operation();
    if (const auto* einsum = dynamic_cast<const Einsum*>(operation)) {
      known_[block_[i].outputs[0]] = {i, einsum};
    } else if (dynamic_cast<const GatherGradient*>(operation)) {
      known_[block_[i].outputs[0]] = {i};
    }
  }

  bool are_alike(ValueId a, ValueId b) const {
    const Value &from = program_.values[a], &to = program_.values[b];
    return from.shape == to.shape && from.dtype == to.dtype && from.layout == to.layout &&
           from.varies == to.varies;
  }

  /// The operation that makes `id`, if `result` can replace its result.
  const Extensible* find(ValueId id, ValueId result) const {
    const auto found = known_.find(id);
    return found != known_.end() && uses_[id] == 1 && are_alike(id, result) ? &found->second : nullptr;
  }
  const Extensible* find_product(ValueId id, ValueId result) const {
    const Extensible* found = find(id, result);
    return found && found->einsum ? found : nullptr;
  }

  bool add_bias(size_t i) {
    const Instruction& instruction = block_[i];
    const auto* binary = dynamic_cast<const Binary*>(instruction.operation());
    if (!binary || binary->function != BinaryFunction::kAdd) return false;
    for (const size_t term : {0, 1}) {
      const Extensible* found = find_product(instruction.inputs[term], instruction.outputs[0]);
      const Tensor& bias = binary->input(static_cast<int>(1 - term));
      if (!found || !found->is_plain_product() || !has_epilogues(*found->einsum) ||
          !is_bias(*found->einsum, bias)) {
        continue;
      }
      Extensible fused = *found;
      fused.epilogue.bias = bias;
      std::vector<ValueId> operands = block_[fused.position].inputs;
      operands.push_back(instruction.inputs[1 - term]);
      return replace(fused, i, std::move(operands));
    }
    return false;
  }

  bool activate(size_t i) {
    const Instruction& instruction = block_[i];
    const auto* function = dynamic_cast<const Unary*>(instruction.operation());
    if (!function) return false;
    const Extensible* found = find_product(instruction.inputs[0], instruction.outputs[0]);
    if (!found || found->epilogue.activation || !has_epilogues(*found->einsum)) return false;
    const bool is_fusible = function->function == UnaryFunction::kGelu ||
                            (function->function == UnaryFunction::kRelu && found->is_plain_product() &&
                             shows_nan(block_[found->position], instruction));
    if (!is_fusible) return false;
    Extensible fused = *found;
    fused.epilogue.activation = function->function;
    return replace(fused, i, block_[fused.position].inputs);
  }

  /// True if a NaN that the relu of a product turns into 0 is seen all the same. The products of the backward pass
  /// multiply the gradient of the relu with both operands; where the relu's result is 0 this gradient is 0, and
  /// 0 * NaN and 0 * infinity are NaN. So what is not finite in an operand reaches a gradient, and with it the test of
  /// the gradients' norm. A bias has no such product. (Finite operands whose sum overflows float32 in both directions
  /// stay unseen.)
  bool shows_nan(const Instruction& product, const Instruction& relu) const {
    const ValueId result = program_.root(relu.outputs[0]);
    const auto reads_value = [&](const Instruction& instruction, ValueId root) {
      return std::ranges::any_of(instruction.inputs, [&](ValueId id) { return program_.root(id) == root; });
    };
    const auto is_multiplied = [&](ValueId gradient, ValueId operand) {
      return std::ranges::any_of(block_uses_.readers(gradient), [&](size_t reader) {
        return dynamic_cast<const Einsum*>(block_[reader].operation()) &&
               reads_value(block_[reader], program_.root(operand));
      });
    };
    return std::ranges::any_of(block_uses_.readers(result), [&](size_t reader) {
      const auto* gradient = dynamic_cast<const UnaryGradient*>(block_[reader].operation());
      if (!gradient || gradient->function != UnaryFunction::kRelu ||
          program_.root(block_[reader].inputs[1]) != result) {
        return false;
      }
      return std::ranges::all_of(
          product.inputs, [&](ValueId operand) { return is_multiplied(block_[reader].outputs[0], operand); });
    });
  }

  /// Replaces the contraction and instruction `reader` by `fused`: at the place of the contraction, or, if an
  /// operand is made in between, at that of `reader`. Returns false if neither is possible.
  bool replace(const Extensible& fused, size_t reader, std::vector<ValueId> operands) {
    Instruction made = block_[reader];
    made.action = action::Run{std::make_shared<FusedEinsum>(*fused.einsum, fused.epilogue)};
    made.inputs = std::move(operands);
    const bool early = !writes_between(fused.position, reader, made.inputs);
    if (!early && writes_between(fused.position, reader, block_[fused.position].inputs)) return false;
    const ValueId result = made.outputs[0];
    known_[result] = fused;
    known_[result].position = early ? fused.position : reader;
    put(std::move(made), fused.position, reader, early);
    return true;
  }

  /// A term of a sum.
  struct Term {
    ValueId id = kNoValue;
    Tensor tensor;
    const Extensible* made = nullptr;  ///< null: a term that is added as it is
  };

  /// The terms of a sum without repetition along any dimension; empty if the instruction is no such sum.
  std::vector<Term> terms_of(const Instruction& instruction) const {
    const Operation* operation = instruction.operation();
    const auto* binary = dynamic_cast<const Binary*>(operation);
    const bool adds = binary && binary->function == BinaryFunction::kAdd;
    if (!adds && !dynamic_cast<const AddN*>(operation)) return {};
    const ValueId result = instruction.outputs[0];
    std::vector<Term> terms;
    for (size_t n = 0; n < instruction.inputs.size(); ++n) {
      const ValueId id = instruction.inputs[n];
      if (!are_alike(id, result)) return {};
      const Extensible* made = find(id, result);
      const bool can_add = made && (!made->einsum || (!made->epilogue.addend && !made->epilogue.activation &&
                                                      is_matrix_product(*made->einsum)));
      terms.push_back({id, operation->input(static_cast<int>(n)), can_add ? made : nullptr});
    }
    return terms;
  }

  /// Lets contractions and gradients of look-ups that are terms of a sum add to each other, in the order in which
  /// they run, the first of them to a term that is known by then. What remains of the sum is added as before.
  bool add_terms(size_t i) {
    std::vector<Term> terms = terms_of(block_[i]);
    const auto is_other = [](const Term& term) { return term.made == nullptr; };
    const auto others =
        static_cast<size_t>(std::ranges::stable_partition(terms, is_other).begin() - terms.begin());
    if (others == terms.size()) return false;
    std::sort(terms.begin() + static_cast<std::ptrdiff_t>(others), terms.end(),
              [](const Term& a, const Term& b) { return a.made->position < b.made->position; });
    // One of the other terms begins the sum if it is known where the first of these operations runs.
    const size_t first = terms[others].made->position;
    const auto begin = std::find_if(terms.begin(), terms.begin() + static_cast<std::ptrdiff_t>(others),
                                    [&](const Term& term) { return !writes_between(first, i, {term.id}); });
    const bool has_begin = begin != terms.begin() + static_cast<std::ptrdiff_t>(others);
    if (!has_begin && terms.size() - others == 1) return false;
    if (has_begin) std::rotate(begin, begin + 1, terms.begin() + static_cast<std::ptrdiff_t>(others));
    const size_t kept = has_begin ? others - 1 : others;
    for (size_t n = kept + 1; n < terms.size(); ++n) add(terms[n - 1], terms[n]);
    finish_sum(i, kept, terms);
    return true;
  }

  /// Makes the operation of `term` add `addend`.
  void add(const Term& addend, const Term& term) {
    Extensible extended = *term.made;
    Instruction& instruction = block_[extended.position];
    instruction.inputs.push_back(addend.id);
    if (extended.einsum) {
      extended.epilogue.addend = addend.tensor;
      instruction.action = action::Run{std::make_shared<FusedEinsum>(*extended.einsum, extended.epilogue)};
    } else {
      const auto& gradient = static_cast<const GatherGradient&>(*instruction.operation());
      instruction.action = action::Run{std::make_shared<FusedGatherGradient>(gradient, addend.tensor)};
    }
  }

  /// Replaces sum `i` by that of the first `kept` terms and the last one, which contains all others.
  void finish_sum(size_t i, size_t kept, const std::vector<Term>& terms) {
    const Term& last = terms.back();
    if (kept == 0) {
      block_[last.made->position].outputs[0] = block_[i].outputs[0];
      removed_[i] = true;
      return;
    }
    Tensors tensors;
    block_[i].inputs.clear();
    for (size_t n = 0; n <= kept; ++n) {
      const Term& term = n == kept ? last : terms[n];
      tensors.push_back(term.tensor);
      block_[i].inputs.push_back(term.id);
    }
    block_[i].action = action::Run{std::make_shared<AddN>(tensors)};
  }

  /// Fuses a contraction into an accumulation. This is safe because nothing else in the loop touches the
  /// total.
  void accumulate(size_t i) {
    const Extensible* found = find_product(block_[i].inputs[0], block_[i].outputs[0]);
    if (!found || !found->is_plain_product()) return;
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
  const std::vector<int>& uses_;
  std::vector<Instruction>& block_;
  const BlockUses block_uses_;  ///< of the block as it was
  std::vector<bool> removed_;
  std::unordered_map<ValueId, Extensible> known_;  ///< by result value
};

}  // namespace

Program fuse_epilogues(Program program) {
  const std::vector<int> uses = count_uses(program);
  Fusion(program, uses, program.instructions).run();
  return program;
}

}  // namespace mtf
