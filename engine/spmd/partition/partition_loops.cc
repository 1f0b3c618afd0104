// Loops over microbatches, and sums of what several stages of a pipeline make.
#include <algorithm>
#include <set>

#include "engine/spmd/partition/partitioner.h"

namespace mtf {

/// Adds up the terms of each stage there, so that only sums are sent. False if all terms are here, or each on a stage of its
/// own.
bool Partitioner::add_by_stage(const Operation& sum) {
  if (!pipeline_) return false;
  std::set<std::optional<Pin>> stages;
  for (const Tensor& term : sum.inputs()) stages.insert(value(values_.at(term)).layout.pin);
  const bool is_here = stages.size() == 1 && *stages.begin() == pin_of(chunk_);
  if (is_here || stages.size() == sum.inputs().size()) return false;
  const Tensors sums = sums_of_stages(sum);
  values_[sum.output()] = values_.at(captured(sum, [&] { return Tensors{add_n(sums)}; })[0]);
  return true;
}

/// The sum of the terms of each stage, in the chunk that makes the last of them.
Tensors Partitioner::sums_of_stages(const Operation& sum) {
  std::map<std::optional<Pin>, Tensors> stages;
  for (const Tensor& term : sum.inputs()) stages[value(values_.at(term)).layout.pin].push_back(term);
  const int chunk = chunk_;
  Tensors sums;
  for (const auto& [pin, terms] : stages) {
    std::set<int> chunks;
    for (const Tensor& term : terms) {
      const int made = chunk_of(values_.at(term), Stages::kNone);
      chunks.insert(pin_of(made) == pin ? made : first_chunk(pin));
    }
    chunk_ = sum.provenance().phase == Phase::kBackward ? *chunks.begin() : *chunks.rbegin();
    sums.push_back(terms.size() == 1 ? terms[0] : captured(sum, [&] { return Tensors{add_n(terms)}; })[0]);
  }
  chunk_ = chunk;
  return sums;
}

void Partitioner::repeat(const Repeat& loop) {
  const OperationScope& scope = loop.scope();
  std::vector<ValueId> carried;
  for (const Tensor& t : loop.loop_values) {
    const Layout layout = activation_.of(t.shape());
    const ValueId initial = require(values_.at(t.operation().input(0)), layout, nullptr, scope);
    carried.push_back(temporary(t.shape(), t.dtype(), layout, layout.varies()));
    emit(action::Copy{}, {initial}, {carried.back()}, scope);
    values_[t] = carried.back();
  }
  action::Loop made{loop.count, {}};
  std::vector<Instruction>* outer = block_;
  const std::map<TransitionKey, ValueId> saved = transitions_;
  find_sums_by_stage(loop);
  block_ = &made.body;
  block(loop.body);
  int output = static_cast<int>(carried.size());
  std::unordered_map<Tensor, ValueId, TensorHash> totals;
  for (const Tensor& t : loop.result.sums) {
    const auto by_stage = sums_by_stage_.find(t);
    if (by_stage == sums_by_stage_.end()) {
      values_[loop.output(output)] = accumulated(t, loop);
    } else {
      by_stage->second = sums_of_stages(t.operation());
      for (const Tensor& sum : by_stage->second) totals[sum] = accumulated(sum, loop);
    }
    ++output;
  }
  for (const Tensor& t : loop.result.placed) {
    const Tensor whole = loop.output(output++);
    const std::optional<Pin> pin = value(values_.at(t)).layout.pin;
    chunk_ = stages_.of(t);
    const ValueId part = require(values_.at(t), activation_.of(t.shape()).at(pin), nullptr, scope);
    const Layout layout = activation_.of(whole.shape()).at(pin);
    const ValueId placed = temporary(whole.shape(), whole.dtype(), layout, value(part).varies);
    const int dimension = *whole.shape().find(loop.microbatching.dimension);
    emit(action::Place{dimension, loop.count}, {part}, {placed}, scope);
    values_[whole] = placed;
  }
  chunk_ = Stages::kNone;
  carry(carried, loop.result.carried, scope);
  block_ = outer;
  transitions_ = saved;
  emit(std::move(made), {}, {}, scope);
  for (size_t i = 0; i < carried.size(); ++i) values_[loop.output(static_cast<int>(i))] = carried[i];
  for (size_t i = 0; i < loop.result.sums.size(); ++i) {
    const Tensor& t = loop.result.sums[i];
    const auto by_stage = sums_by_stage_.find(t);
    if (by_stage == sums_by_stage_.end()) continue;
    for (const Tensor& sum : by_stage->second) values_[sum] = totals.at(sum);
    chunk_ = stages_.of(t);
    const Tensors sum = captured(t.operation(), [&] { return Tensors{add_n(by_stage->second)}; });
    values_[loop.output(static_cast<int>(carried.size() + i))] = values_.at(sum[0]);
  }
}

/// The sum of `term` over the iterations of the loop.
ValueId Partitioner::accumulated(const Tensor& tensor, const Repeat& loop) {
  ValueId term = values_.at(tensor);
  chunk_ = chunk_of(term, chunk_);
  Layout wanted = rules(loop.sums_domain).of(tensor.shape()).at(value(term).layout.pin);
  wanted.partial = value(term).layout.partial & ~wanted.split_axes();
  if (value(term).layout.partial & wanted.split_axes()) term = require(term, wanted, nullptr, loop.scope());
  const Value from = value(term);
  const ValueId total = temporary(from.shape, from.dtype, from.layout, from.varies);
  emit(action::Accumulate{}, {term}, {total}, loop.scope());
  return total;
}

/// A sum over the microbatches whose terms are made at several stages (the gradient of a table that they share) is added
/// up at each of them; only the totals are sent.
void Partitioner::find_sums_by_stage(const Repeat& loop) {
  if (!pipeline_) return;
  std::unordered_set<Tensor, TensorHash> used(loop.result.placed.begin(), loop.result.placed.end());
  used.insert(loop.result.carried.begin(), loop.result.carried.end());
  for (const auto& operation : loop.body) used.insert(operation->inputs().begin(), operation->inputs().end());
  for (const Tensor& sum : loop.result.sums) {
    if (dynamic_cast<const AddN*>(&sum.operation()) == nullptr || used.contains(sum)) continue;
    const Tensors& terms = sum.operation().inputs();
    const auto stage = [this](const Tensor& term) { return pin_of(stages_.of(term)); };
    const bool is_alike =
        std::ranges::all_of(terms, [&](const Tensor& term) { return stage(term) == stage(terms.front()); });
    if (!is_alike) sums_by_stage_[sum];
  }
}

void Partitioner::carry(const std::vector<ValueId>& carried, const Tensors& results,
                        const OperationScope& scope) {
  std::vector<ValueId> next;
  for (size_t i = 0; i < carried.size(); ++i) {
    const Value target = value(carried[i]);
    ValueId id = require(values_.at(results[i]), target.layout, nullptr, scope);
    for (ValueId other : carried) {
      // A result that is itself a carried value must be read before that value is overwritten.
      if (program_.root(id) != other || other == carried[i]) continue;
      id = copied(id, scope);
      break;
    }
    next.push_back(id);
  }
  for (size_t i = 0; i < carried.size(); ++i) {
    if (next[i] != carried[i]) emit(action::Copy{}, {next[i]}, {carried[i]}, scope);
  }
}

}  // namespace mtf
