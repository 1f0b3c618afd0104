// What attention layers keep while a text is written token by token. Caches are session variables, so that
// the two programs of decoding share them: the prefill reads the tokens that are given, a step one token of
// each hypothesis.
//
//   const Tensor keys = decoding.remember(context, "k", k);   // all keys so far, this token's included
#pragma once

#include <cstdint>
#include <string>

#include "engine/graph/tensor.h"

namespace mtf {

class Context;

class Decoding {
 public:
  /// `beam`: the hypotheses of a text; `memory`: called memory_length, the tokens that a cache can hold.
  /// last: int32 [batch], the index of the last token that is given.
  static Decoding prefill(const Dimension& beam, const Dimension& memory, const Tensor& last);
  /// position: int32 [batch], the index of the token that is read. parent: int32 [batch, beam], the
  /// hypothesis (of the step before) that each one continues; null: itself. common: the same shape, the entries from the
  /// first on that each one has in its cache as that hypothesis has. shared_prefix: int32 [batch], the entries from the
  /// first on that all hypotheses of a text then have alike; null: not known.
  static Decoding step(const Dimension& beam, const Dimension& memory, const Tensor& position,
                       const Tensor& parent, const Tensor& common, const Tensor& shared_prefix);

  bool is_step() const { return static_cast<bool>(position_); }
  const Tensor& position() const { return position_; }
  const Tensor& shared_prefix() const { return shared_prefix_; }
  const Dimension& beam() const { return beam_; }

  /// Prefill: keeps x [batch, memory_length, ..] as the first entries of the cache of every hypothesis, and
  /// returns x. Step: adds x [batch, beam, ..] at position() and returns the cache [batch, beam, ..,
  /// memory_length, ..]. The cache is a variable in the current scope; layers that share weights, and so a
  /// scope, have one each.
  Tensor remember(Context& context, const std::string& name, const Tensor& x) const;
  /// Prefill: keeps x, which the steps do not change. x: [batch, ..].
  void keep(Context& context, const std::string& name, const Tensor& x) const;
  /// Step: what the prefill has kept; its shape, which may be declared in another order than x was.
  Tensor kept(Context& context, const std::string& name, const Shape& shape, DType dtype) const;
  /// Prefill: keeps the last width - 1 entries of x [batch, length, ..] for recall(); those before the text are zeros.
  void keep_last(Context& context, const std::string& name, const Tensor& x, const std::string& length,
                 int64_t width) const;
  /// Step: x [batch, beam, ..], then what it was one step before, .., width - 1 steps before.
  Tensors recall(Context& context, const std::string& name, const Tensor& x, int64_t width) const;

 private:
  Dimension beam_, memory_;
  Tensor last_, position_, parent_, common_, shared_prefix_;
};

}  // namespace mtf
