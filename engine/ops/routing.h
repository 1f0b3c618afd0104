// Moves tokens to experts and back: each token chooses experts, each expert has places for rows.
//
//   const Slots slots = assign_slots(chosen, {}, {.experts = 8, .block = {"experts", 8}, .capacity = {"capacity", 4}});
//   const Tensor rows = dispatch(x, slots);                 // [experts, batch, capacity, d_model]
//   const Tensor y = combine(function(rows), slots, weights);   // [batch, group, d_model]
//
// Dimensions of the operands, in this order:
//   tokens   [rows.., group, vector]      choices, weights  [rows.., group, choice]
//   slots    [block, rows.., capacity]    table             [block, rows.., capacity, vector]
// Tokens of one group compete for the places of that group. A block holds the rows of one expert, or of several
// consecutive ones, sorted by expert. Places that nobody takes are rows of zeros.
//
// Where `group` is split, dispatch() is a partial sum; where `block` is, combine() is.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/graph/graph.h"

namespace mtf {

struct SlotOptions {
  int64_t experts = 1;
  Dimension block;             ///< its size divides `experts`
  Dimension capacity;          ///< places of a block for each group
  bool one_per_token = false;  ///< a token that has a place makes no further choices
};

struct Slots {
  Tensor slot;   ///< int32 [rows.., group, choice]: place in all blocks, block * capacity + place; -1: none
  Tensor taker;  ///< int32 [block, rows.., capacity]: token * choices + choice; -1: nobody
  Tensor
      offsets;  ///< int32 [block, rows.., expert_offsets]: where the rows of each expert of a block begin, and end
};

/// Gives places in the order of choices, then tokens; with `priority` [rows.., group, choice] (may be null) each
/// expert takes the choices of highest priority first, ties in that order. expert: int32 [rows.., group, choice];
/// an id out of range chooses nobody. Throws Error if block's size does not divide `experts`.
Slots assign_slots(const Tensor& expert, const Tensor& priority, const SlotOptions& options);

/// Returns the row of each place: weight * x of the token that took it. `weights` may be null; they are float32,
/// or float64 if x is.
Tensor dispatch(const Tensor& x, const Slots& slots, const Tensor& weights = {});
/// Returns for each token the sum over its choices of weight * the row at its place, in float32 and in the order of
/// choices.
Tensor combine(const Tensor& table, const Slots& slots, const Tensor& weights = {});
/// Returns for each choice the sum over `vector` of y * the row at its place, in the type of weights.
Tensor choice_products(const Tensor& y, const Tensor& table, const Slots& slots);

/// Inputs: expert and, where there is one, priority. Outputs: slot, taker, offsets.
class AssignSlots final : public OperationBase<AssignSlots> {
 public:
  AssignSlots(const Tensors& inputs, const SlotOptions& options);
  std::string_view name() const override { return "assign_slots"; }
  std::string attributes() const override;
  /// `group` is gathered where it is split; the slices of the outputs are cut out afterwards.
  ShardingRule sharding_rule(const ShardingRequest& request) const override;
  std::vector<std::string> unsplittable() const override;

  SlotOptions options;
};

/// Inputs: x, slot, taker and, where there are any, weights.
class Dispatch final : public OperationBase<Dispatch> {
 public:
  Dispatch(const Tensors& inputs);
  std::string_view name() const override { return "dispatch"; }
  Tensors gradient(const Tensors& dy) const override;
  ShardingRule sharding_rule(const ShardingRequest& request) const override;
};

/// Inputs: table, slot, taker and, where there are any, weights.
class Combine final : public OperationBase<Combine> {
 public:
  Combine(const Tensors& inputs);
  std::string_view name() const override { return "combine"; }
  Tensors gradient(const Tensors& dy) const override;
  ShardingRule sharding_rule(const ShardingRequest& request) const override;
};

/// Inputs: y, table, slot, taker.
class ChoiceProducts final : public OperationBase<ChoiceProducts> {
 public:
  ChoiceProducts(const Tensors& inputs);
  std::string_view name() const override { return "choice_products"; }
  Tensors gradient(const Tensors& dy) const override;
  ShardingRule sharding_rule(const ShardingRequest& request) const override;
};

}  // namespace mtf
