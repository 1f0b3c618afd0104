#include <algorithm>

#include "engine/graph/structural.h"
#include "engine/ops/binary.h"
#include "engine/ops/normalization.h"
#include "engine/spmd/instruction_uses.h"
#include "engine/spmd/passes/block_uses.h"
#include "engine/spmd/passes/passes.h"
#include "engine/spmd/passes/rewrite_blocks.h"

namespace mtf {
namespace {

/// The operation that an instruction without a guard runs, if it is an `Operation`; else null.
template <class Operation>
const Operation* operation_of(const Instruction& instruction) {
  const bool runs = instruction.is<action::Run>() && instruction.guard == kNoValue;
  return runs ? dynamic_cast<const Operation*>(instruction.operation()) : nullptr;
}

/// A copy of the operands with another one at `place` or, if there is none yet, at the end.
template <class Operands>
Operands with(Operands operands, int place, const typename Operands::value_type& operand) {
  operands.resize(std::max(operands.size(), static_cast<size_t>(place) + 1));
  operands[static_cast<size_t>(place)] = operand;
  return operands;
}

/// What is fused into the norms of one block. Each step changes the block after it has looked at all of it.
class NormFusion {
 public:
  NormFusion(const Program& program, const std::vector<int>& uses, std::vector<Instruction>& block)
      : program_(program), uses_(uses), block_(block), block_uses_(program, block), removed_(block.size()) {}

  void take_masks() {
    for (size_t i = 0; i < block_.size(); ++i) {
      const auto* product = operation_of<Binary>(block_[i]);
      if (product == nullptr || product->function != BinaryFunction::kMultiply) continue;
      for (const int mask : {0, 1}) {
        if (mask_result(i, mask) || mask_gradient(i, mask)) break;
      }
    }
    finish();
  }

  void take_parameters() {
    for (size_t i = 0; i < block_.size(); ++i) {
      const auto* gradient = operation_of<NormalizationGradient>(block_[i]);
      if (gradient == nullptr || gradient->fused.parameters) continue;
      for (const size_t reader : block_uses_.readers(block_[i].inputs[0])) {
        if (join_parameters(i, *gradient, reader)) break;
      }
    }
    finish();
  }

  void take_addends() {
    for (size_t i = 0; i < block_.size(); ++i) {
      if (operation_of<AddN>(block_[i]) == nullptr || block_[i].inputs.size() != 2) continue;
      for (const int addend : {0, 1}) {
        if (add_to_gradient(i, addend)) break;
      }
    }
    finish();
  }

 private:
  const Value& value(ValueId id) const { return program_.values[static_cast<size_t>(id)]; }

  bool are_alike(ValueId a, ValueId b) const {
    const Value &x = value(a), &y = value(b);
    return x.shape == y.shape && x.dtype == y.dtype && x.layout == y.layout && x.varies == y.varies;
  }
  /// True if `mask` has one value for each row, as the statistic does.
  bool is_mask(ValueId mask, ValueId statistic) const {
    const Value &m = value(mask), &s = value(statistic);
    return m.shape == s.shape && m.layout == s.layout;
  }

  /// y = norm(x) * mask, at `product`.
  bool mask_result(size_t product, int mask) {
    const Instruction& last = block_[product];
    const ValueId factor = last.inputs[static_cast<size_t>(mask)],
                  whole = last.inputs[static_cast<size_t>(1 - mask)];
    const std::optional<size_t> first = block_uses_.maker(whole);
    if (!first) return false;
    const Instruction& norm = block_[*first];
    const auto* operation = operation_of<Normalization>(norm);
    if (operation == nullptr || operation->fused.mask || norm.outputs[0] != whole || uses_[whole] != 1 ||
        !is_mask(factor, norm.outputs[1]) || !are_alike(whole, last.outputs[0])) {
      return false;
    }
    const int place = static_cast<int>(norm.inputs.size());
    Instruction made = norm;
    made.action = action::Run{std::make_shared<Normalization>(
        with(operation->inputs(), place, last.operation()->input(mask)), operation->dimension,
        operation->epsilon, FusedIntoNorm{.mask = true})};
    made.inputs.push_back(factor);
    made.outputs[0] = last.outputs[0];
    return replace(*first, product, factor, std::move(made));
  }

  /// dy * mask, at `product`, where only gradients of norms read it.
  bool mask_gradient(size_t product, int mask) {
    const Instruction& first = block_[product];
    const ValueId factor = first.inputs[static_cast<size_t>(mask)],
                  dy = first.inputs[static_cast<size_t>(1 - mask)], masked = first.outputs[0];
    const std::span<const size_t> readers = block_uses_.readers(masked);
    if (readers.empty() || std::ssize(readers) != uses_[masked] || !are_alike(dy, masked)) return false;
    const Tensor &of_dy = first.operation()->input(1 - mask), &of_mask = first.operation()->input(mask);
    std::vector<Instruction> made;
    for (const size_t reader : readers) {
      made.push_back(block_[reader]);
      std::vector<ValueId>& inputs = made.back().inputs;
      if (block_uses_.is_written({dy, factor}, product, reader)) return false;
      if (const auto* gradient = operation_of<NormalizationGradient>(block_[reader])) {
        if (gradient->fused.mask || gradient->fused.addend || inputs[2] != masked ||
            !is_mask(factor, inputs[3])) {
          return false;
        }
        made.back().action = action::Run{std::make_shared<NormalizationGradient>(
            with(with(gradient->inputs(), 2, of_dy), gradient->mask_input(), of_mask), gradient->dimension,
            FusedIntoNorm{.mask = true})};
        inputs = with(with(inputs, 2, dy), gradient->mask_input(), factor);
      } else if (const auto* sums = operation_of<NormalizationParameterGradient>(block_[reader])) {
        if (sums->fused.mask || inputs[1] != masked || !is_mask(factor, inputs[2])) return false;
        made.back().action = action::Run{std::make_shared<NormalizationParameterGradient>(
            with(with(sums->inputs(), 1, of_dy), sums->mask_input(), of_mask), sums->dimension,
            FusedIntoNorm{.mask = true})};
        inputs = with(with(inputs, 1, dy), sums->mask_input(), factor);
      } else {
        return false;
      }
    }
    for (size_t n = 0; n < made.size(); ++n) put(readers[n], std::move(made[n]));
    removed_[product] = true;
    return true;
  }

  /// The gradients of the parameters at `reader`, if they belong to the gradient at `first`.
  bool join_parameters(size_t first, const NormalizationGradient& gradient, size_t reader) {
    const auto* sums = operation_of<NormalizationParameterGradient>(block_[reader]);
    if (sums == nullptr || sums->dimension != gradient.dimension || removed_[reader]) return false;
    std::vector<ValueId> operands = block_[first].inputs;
    operands.resize(operands.size() - gradient.fused.addend);
    operands.erase(operands.begin() + 1);  // the scale
    const std::vector<ValueId>& results = block_[reader].outputs;
    if (block_[reader].inputs != operands || sums->fused.mask != gradient.fused.mask ||
        value(results[0]).varies != value(block_[first].outputs[0]).varies ||
        block_uses_.are_separated(first, reader) ||
        block_uses_.is_written(operands, std::min(first, reader), std::max(first, reader)) ||
        are_read_before(results, first)) {
      return false;
    }
    FusedIntoNorm fused = gradient.fused;
    fused.parameters = true;
    Instruction made = block_[first];
    made.action =
        action::Run{std::make_shared<NormalizationGradient>(gradient.inputs(), gradient.dimension, fused)};
    made.outputs.insert(made.outputs.end(), results.begin(), results.end());
    put(first, std::move(made));
    removed_[reader] = true;
    return true;
  }

  /// addend + dx, at `sum`.
  bool add_to_gradient(size_t sum, int addend) {
    const Instruction& last = block_[sum];
    const ValueId term = last.inputs[static_cast<size_t>(addend)],
                  dx = last.inputs[static_cast<size_t>(1 - addend)];
    const std::optional<size_t> first = block_uses_.maker(dx);
    if (!first) return false;
    const Instruction& norm = block_[*first];
    const auto* operation = operation_of<NormalizationGradient>(norm);
    if (operation == nullptr || operation->fused.addend || norm.outputs[0] != dx || uses_[dx] != 1 ||
        !are_alike(dx, term) || !are_alike(dx, last.outputs[0])) {
      return false;
    }
    FusedIntoNorm fused = operation->fused;
    fused.addend = true;
    const int place = static_cast<int>(norm.inputs.size());
    Instruction made = norm;
    made.action = action::Run{std::make_shared<NormalizationGradient>(
        with(operation->inputs(), place, last.operation()->input(addend)), operation->dimension, fused)};
    made.inputs.push_back(term);
    made.outputs[0] = last.outputs[0];
    return replace(*first, sum, term, std::move(made));
  }

  /// Replaces the norm at `first` and what follows it at `second` by `made`: at the place of the norm if the
  /// further operand is known there, or else at that of the other instruction, unless that keeps more memory
  /// alive than the result of the norm had.
  bool replace(size_t first, size_t second, ValueId operand, Instruction made) {
    const std::optional<size_t> maker = block_uses_.maker(operand);
    const std::vector<ValueId>& operands = block_[first].inputs;
    const bool known = (!maker || *maker < first) && !block_uses_.is_written({operand}, first, second);
    if (!known &&
        (block_uses_.are_separated(first, second) || block_uses_.is_written(operands, first, second) ||
         are_read_before({made.outputs.begin() + 1, made.outputs.end()}, second) ||
         block_uses_.prolonged_bytes(operands, second) > program_.local_bytes(made.outputs[0]))) {
      return false;
    }
    removed_[known ? second : first] = true;
    put(known ? first : second, std::move(made));
    return true;
  }

  bool are_read_before(const std::vector<ValueId>& ids, size_t place) const {
    return std::ranges::any_of(ids, [&](ValueId id) {
      return std::ranges::any_of(block_uses_.readers(id), [&](size_t reader) { return reader < place; });
    });
  }

  void put(size_t place, Instruction made) {
    block_uses_.move(made.inputs, made.outputs, place);
    block_[place] = std::move(made);
  }

  /// Removes what has been replaced.
  void finish() {
    size_t i = 0;
    std::erase_if(block_, [&](const Instruction&) { return removed_[i++]; });
  }

  const Program& program_;
  const std::vector<int>& uses_;
  std::vector<Instruction>& block_;
  BlockUses block_uses_;
  std::vector<bool> removed_;
};

}  // namespace

Program fuse_norms(Program program, bool with_parameters) {
  const std::vector<int> uses = count_uses(program);
  for_each_block(program.instructions, [&](auto& block) {
    NormFusion(program, uses, block).take_masks();
    if (with_parameters) NormFusion(program, uses, block).take_parameters();
    NormFusion(program, uses, block).take_addends();
  });
  return program;
}

}  // namespace mtf
