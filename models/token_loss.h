// The loss of predicted tokens, and the metrics of their evaluation.
//
//   loss = sum over the targets above 0 of cross_entropy(logits, target) / D
// with label smoothing and, in training, z_loss log_z^2 (engine/ops/cross_entropy.h); D: all positions of the
// batch, padding included, or loss_denominator. The other metrics take hard targets: neg_log_perplexity is
// the mean of -cross_entropy over the tokens, perplexity is exp(-neg_log_perplexity), token_accuracy is the
// share of tokens whose largest logit is the target's, sequence_accuracy that of rows without a wrong token.
// Mesh TensorFlow's transformer computes them so.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "engine/config/schema.h"
#include "models/model.h"

namespace mtf {

struct TokenLossOptions {
  double label_smoothing = 0;
  double z_loss = 1e-4;
  std::optional<double> loss_denominator;
};
/// The keys label_smoothing, z_loss, loss_denominator.
void describe_token_loss(config::Visitor& visit, TokenLossOptions& options);

/// Names of the metrics of token_loss in evaluation. `loss` is what training minimises, for each token;
/// of the targets alone: `mean_label`, a checksum of the data, `num_eval_tokens` and `max_targets_length`,
/// the most tokens of a row.
std::vector<std::string> token_metrics();

/// A number of Context::loss_chunks() that does not suit the model; the caller who has set it knows its place.
class LossChunksError : public Error {
 public:
  using Error::Error;
};

/// Factors of the targets above 0, float32 [batch, length]; null: each counts once.
struct TokenWeights {
  Tensor loss = {};
  Tensor metrics = {};  ///< for all metrics but the loss
};

/// What the sum of the losses of an example is divided by in token_loss().
double token_loss_denominator(const Context& context, const TokenLossOptions& options, const Tensor& targets);

/// Where logits come from: logits_of(hidden) is [batch, length, vocabulary] for hidden states [batch, length, ..], also for a
/// part of their places.
struct TokenPrediction {
  Tensor hidden;
  std::function<Tensor(const Tensor& hidden)> logits_of;
  std::string vocabulary;      ///< the dimension of the logits that the softmax is over
  std::string scope = "loss";  ///< what is added beside the logits is in this scope
};

/// Sets logits, loss and metrics of `output`; targets: int32 [batch, length]. The loss is the sum over what
/// counts, divided by all positions of the batch (padding included) or by loss_denominator. It widens
/// bfloat16 logits as it reads them, and their gradient is rounded once.
/// With Context::loss_chunks() the logits of a part of `length`, their loss and their gradient are computed before
/// those of the next part, and output has no logits and no class_losses. Chunk i of n has the places i, n+i, 2n+i, ..., so that
/// layouts may split `length`. Throws LossChunksError where the number does not divide `length` in training; evaluation
/// takes the largest divisor that is not larger.
void token_loss(Context& context, const TokenLossOptions& options, const TokenPrediction& prediction,
                const Tensor& targets, const TokenWeights& weights, ModelOutput& output);

}  // namespace mtf
