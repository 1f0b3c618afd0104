// Ensembles: several models of one architecture that predict each token together. Their variables are those of
// the model below member_0/, member_1/, ...
//
//   const Prediction both = prediction_of({logits_0, logits_1}, EnsembleMean::kProbabilities);
//   graph.set_output("log_probs", both.log_probs(both.logits));
#pragma once

#include <cstdint>
#include <string>

#include "engine/graph/graph.h"
#include "trainer/config/infer_options.h"

namespace mtf {

struct Ensemble {
  int64_t members = 1;  ///< 1: a single model, whose variables have no prefix
  EnsembleMean mean = EnsembleMean::kProbabilities;
};

/// Returns "member_0", the scope of the first member's variables.
std::string member_name(int64_t member);

/// What a model or an ensemble predicts for a token.
struct Prediction {
  Tensor logits;      ///< [..., vocab]
  Tensor total = {};  ///< the logarithm of the sum of exp(logits); null: the logits are log-probabilities

  /// Returns the log-probabilities of `some`, which are logits.
  Tensor log_probs(const Tensor& some) const;
};

Prediction prediction_of(const Tensor& logits);
/// The prediction of an ensemble whose members have these logits. With kProbabilities, members that agree
/// predict what each of them predicts, bit for bit.
Prediction prediction_of(const Tensors& logits, EnsembleMean mean);

}  // namespace mtf
