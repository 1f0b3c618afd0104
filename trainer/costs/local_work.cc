#include "trainer/costs/local_work.h"

#include <algorithm>
#include <unordered_set>

#include "engine/backend/cpu/contractions/joint_products.h"
#include "engine/ops/einsum.h"
#include "engine/runtime/collective_of.h"
#include "engine/runtime/position_sums.h"

namespace mtf {
namespace {

/// True for a product of two matrices of float32.
bool is_joinable(const Instruction& instruction, const Program& program, const Work& work) {
  return instruction.is<action::Run>() && instruction.guard == kNoValue && work.product.batch == 1 &&
         dynamic_cast<const Einsum*>(instruction.operation()) != nullptr &&
         program.values[instruction.inputs[0]].dtype == DType::kFloat32;
}

/// The index of the input that has the last dimension of the result.
size_t input_of_columns(const Instruction& instruction, const Program& program) {
  const Shape &result = program.values[instruction.outputs[0]].shape,
              &first = program.values[instruction.inputs[0]].shape;
  return result.rank() > 0 && first.contains(result[result.rank() - 1].name) ? 0 : 1;
}

}  // namespace

LocalWork::LocalWork(const Program& program, const CostModel& model)
    : program_(program), model_(model), works_(program) {
  if (!model.is_gpu()) find_sums();
  std::unordered_set<ValueId> terms;
  for (const auto& [term, reduction] : sums_) terms.insert(term);
  cold_.emplace(program, model, terms);
}

void LocalWork::find_sums() {
  const Placement& placement = model_.placement();
  for (const auto& [term, sum] : position_sums(program_, placement.mesh, placement.replicates))
    sums_[term] = sum.reduction;
  if (!sums_.empty()) keep_sums_of_kernels(program_.instructions);
}

bool LocalWork::is_made_with_terms(const Instruction& instruction) const {
  return std::ranges::all_of(instruction.inputs, [&](ValueId id) { return sums_.contains(id); });
}

/// Forgets the sums that the kernel does not make.
void LocalWork::keep_sums_of_kernels(const std::vector<Instruction>& block) {
  for (const Instruction& instruction : block) {
    keep_sums_of_kernels(instruction.body());
    if (instruction.outputs.empty() || !sums_.contains(instruction.outputs[0])) continue;
    const Work work = *works_.of(instruction);
    const bool is_made = is_joinable(instruction, program_, work) &&
                         work.product.summed <= kMostSummedDepth &&
                         work.product.rows * work.product.columns <= kMostSummedElements &&
                         work.factors == FactorType::kFloat32;
    if (!is_made) sums_.erase(instruction.outputs[0]);
  }
}

ProcessWork LocalWork::of(const Instruction& instruction, int64_t copies) {
  ProcessWork result{*works_.of(instruction), cold_->bytes(instruction), copies};
  if (result.calls == 1 || model_.is_gpu() || !is_joinable(instruction, program_, result.work)) return result;
  if (const auto sum = sums_.find(instruction.outputs[0]); sum != sums_.end()) {
    join_terms(*sum->second, result);
  } else {
    join_rows(instruction, result);
  }
  return result;
}

void LocalWork::join_rows(const Instruction& instruction, ProcessWork& joined) const {
  const size_t shared = input_of_columns(instruction, program_);
  const bool replicates = model_.placement().replicates;
  const int64_t groups = model_.count(stored_over(program_, instruction.inputs[shared], replicates));
  ProductExtents& extents = joined.work.product;
  double& rows = shared == 0 ? extents.columns : extents.rows;
  if (replicates || groups >= joined.calls || rows > kMostJointRows) return;
  const auto positions = static_cast<double>(joined.calls / groups);
  const auto bytes = static_cast<double>(program_.local_bytes(instruction.inputs[shared]));
  const double cold = joined.work.bytes > 0 ? joined.cold / joined.work.bytes : 0;
  rows *= positions;
  joined.work.flops *= positions;
  joined.work.bytes = bytes + positions * (joined.work.bytes - bytes);
  joined.cold = cold * joined.work.bytes;
  joined.calls = groups;
}

void LocalWork::join_terms(const Instruction& reduction, ProcessWork& joined) const {
  const int64_t totals = model_.count(computed_over(program_, reduction, model_.placement().replicates));
  const auto terms = static_cast<double>(joined.calls / totals);
  joined.work.product.terms = terms;
  joined.work.flops *= terms;
  joined.work.bytes *= terms;
  joined.cold *= terms;
  joined.calls = totals;
}

}  // namespace mtf
