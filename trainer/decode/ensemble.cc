#include "trainer/decode/ensemble.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/graph/structural.h"
#include "engine/ops/binary.h"
#include "engine/ops/softmax.h"
#include "engine/ops/unary.h"
#include "models/resized.h"

namespace mtf {
namespace {

/// Returns the weighted mean. Divides, since multiplying by 1 / n is not exact where all members are equal.
Tensor mean_of(const Tensors& values, const std::vector<EnsembleMember>& members) {
  Tensors weighted;
  double sum = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double weight = members[i].weight;
    weighted.push_back(weight == 1 ? values[i] : scalar_multiply(values[i], weight));
    sum += weight;
  }
  const Tensor total = add_n(weighted);
  return divide(total, total.graph().constant(sum), total.shape());
}

/// Returns log(mean(exp(x))) over the members. The largest is taken out, so that nothing underflows.
Tensor log_mean_exp(const Tensors& values, const std::vector<EnsembleMember>& members) {
  Tensor largest = values[0];
  for (size_t i = 1; i < values.size(); ++i) largest = maximum(largest, values[i]);
  Tensors parts;
  for (const Tensor& value : values) parts.push_back(exp(subtract(value, largest)));
  return add(largest, log(mean_of(parts, members)));
}

const Dimension& vocabulary_of(const Tensor& logits) { return logits.shape()[logits.shape().rank() - 1]; }

/// Cuts all to the smallest vocabulary: what the others have beyond it is padding.
Tensors of_one_size(const Tensors& logits) {
  Dimension smallest = vocabulary_of(logits[0]);
  for (const Tensor& member : logits) smallest.size = std::min(smallest.size, vocabulary_of(member).size);
  Tensors cut;
  for (const Tensor& member : logits) cut.push_back(resized(member, smallest));
  return cut;
}

}  // namespace

Tensor mean_of_members(const Tensors& values, const Ensemble& ensemble) {
  return values.size() == 1 ? values[0] : mean_of(values, ensemble.members);
}

std::string member_name(int64_t member) { return fmt::format("member_{}", member); }

Tensor Prediction::log_probs(const Tensor& some) const {
  return total ? subtract(some, total, some.shape()) : some;
}

Prediction prediction_of(const Tensor& logits) {
  // As in the training loss, logits beyond the size of the vocabulary are part of the sum.
  return {logits, reduce_logsumexp(logits, logits.shape()[logits.shape().rank() - 1].name)};
}

Prediction prediction_of(const Tensors& logits, const Ensemble& ensemble) {
  if (ensemble.mean == EnsembleMean::kLogits)
    return prediction_of(mean_of(of_one_size(logits), ensemble.members));
  Tensors log_probs;
  for (const Tensor& member : logits) log_probs.push_back(prediction_of(member).log_probs(member));
  log_probs = of_one_size(log_probs);
  return {ensemble.mean == EnsembleMean::kProbabilities ? log_mean_exp(log_probs, ensemble.members)
                                                        : mean_of(log_probs, ensemble.members)};
}

}  // namespace mtf
