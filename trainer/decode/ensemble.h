// Ensembles: several models with one vocabulary that predict each token together. Their variables are those of the
// models below member_0/, member_1/, ...
//
//   const Prediction both = prediction_of({logits_0, logits_1}, ensemble);
//   graph.set_output("log_probs", both.log_probs(both.logits));
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/graph/graph.h"
#include "models/model.h"
#include "trainer/config/infer_options.h"

namespace mtf {

struct EnsembleMember {
  const Model* model = nullptr;  ///< it writes texts, and outlives the ensemble
  double weight = 1;             ///< in the mean; the weights of the members have any sum
};

struct Ensemble {
  /// One member is a single model, whose variables have no prefix; none are the session's model.
  std::vector<EnsembleMember> members = {};
  EnsembleMean mean = EnsembleMean::kProbabilities;

  /// True if the prediction has logits, and not only log-probabilities.
  bool has_logits() const { return members.size() < 2 || mean == EnsembleMean::kLogits; }
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
/// The prediction of an ensemble whose members have these logits, with the weights w of the members divided by their
/// sum: log(sum of w * p) of the probabilities p, the softmax of sum of w * logits, or sum of w * log(p). Where the
/// members have vocabularies that are padded to different sizes, it has the smallest. With kProbabilities, members that
/// agree and have equal weights predict what each of them predicts, bit for bit.
Prediction prediction_of(const Tensors& logits, const Ensemble& ensemble);

/// The mean of what the members make, by their weights.
Tensor mean_of_members(const Tensors& values, const Ensemble& ensemble);

}  // namespace mtf
