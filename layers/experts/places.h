// Places of tokens at experts, and what experts make of the tokens there.
#pragma once

#include <cstdint>
#include <string>

#include "engine/ops/routing.h"
#include "layers/context.h"
#include "layers/experts/options.h"
#include "layers/experts/router.h"
#include "layers/experts/token_groups.h"

namespace mtf {

/// The places of a layer. With a capacity each expert has so many for each group, and what is computed is a batched
/// product over all places. Without, a block of experts has as many as its tokens can need, its rows are sorted by expert,
/// and only rows of tokens are computed. A block then is what one position holds (Context::expert_parts).
class ExpertPlaces {
 public:
  /// `groups`: those that share the places. `keeps_all`: no token is dropped.
  ExpertPlaces(const Context& context, const MoeOptions& options, const TokenGroups& groups,
               const Routing& routing, bool keeps_all);

  const Slots& slots() const { return slots_; }
  const TokenGroups& groups() const { return groups_; }
  bool sorted() const { return sorted_; }
  /// Places in all, for each group.
  int64_t size() const { return block_.size * capacity_.size; }

  /// The sum over the choices of each token of weight * expert(x). x: [tokens.., model]
  Tensor mixed(Context& context, const Tensor& x, const Tensor& weights, const Shape& model) const;

 private:
  std::string routed_experts() const;
  Tensor experts(Context& context, const Tensor& rows, const Shape& model) const;
  Shape moved(const Shape& rows) const;
  Tensor product(Context& context, const std::string& name, const Tensor& x, const Tensor& offsets,
                 const Dimension& in, const Dimension& out) const;
  Tensor hidden(Context& context, const Tensor& x, const Tensor& offsets, const Dimension& model) const;
  Tensor dropout_of_choices(Context& context, const Tensor& h) const;

  const MoeOptions& options_;
  const TokenGroups& groups_;
  bool sorted_;
  Dimension block_, capacity_;
  double filled_ = 1;
  Slots slots_;
};

}  // namespace mtf
