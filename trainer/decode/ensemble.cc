#include "trainer/decode/ensemble.h"

#include <fmt/format.h>

#include "engine/graph/structural.h"
#include "engine/ops/binary.h"
#include "engine/ops/softmax.h"
#include "engine/ops/unary.h"

namespace mtf {
namespace {

/// Divides, since multiplying by 1 / n is not exact where all members are equal.
Tensor mean_of(const Tensors& members) {
  const Tensor sum = add_n(members);
  return divide(sum, sum.graph().constant(static_cast<double>(members.size())), sum.shape());
}

/// Returns log(mean(exp(x))) over the members. The largest is taken out, so that nothing underflows.
Tensor log_mean_exp(const Tensors& members) {
  Tensor largest = members[0];
  for (size_t i = 1; i < members.size(); ++i) largest = maximum(largest, members[i]);
  Tensors parts;
  for (const Tensor& member : members) parts.push_back(exp(subtract(member, largest)));
  return add(largest, log(mean_of(parts)));
}

}  // namespace

std::string member_name(int64_t member) { return fmt::format("member_{}", member); }

Tensor Prediction::log_probs(const Tensor& some) const {
  return total ? subtract(some, total, some.shape()) : some;
}

Prediction prediction_of(const Tensor& logits) {
  // As in the training loss, logits beyond the size of the vocabulary are part of the sum.
  return {logits, reduce_logsumexp(logits, logits.shape()[logits.shape().rank() - 1].name)};
}

Prediction prediction_of(const Tensors& logits, EnsembleMean mean) {
  if (mean == EnsembleMean::kLogits) return prediction_of(mean_of(logits));
  Tensors log_probs;
  for (const Tensor& member : logits) log_probs.push_back(prediction_of(member).log_probs(member));
  return {log_mean_exp(log_probs)};
}

}  // namespace mtf
