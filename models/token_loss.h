// The loss of predicted tokens, and the metrics of their evaluation.
//
//   loss = sum over the targets above 0 of cross_entropy(logits, target) / D
// with label smoothing and, in training, z_loss log_z^2 (engine/ops/cross_entropy.h); D: all positions of the
// batch, padding included, or loss_denominator. The other metrics take hard targets: neg_log_perplexity is
// the mean of -cross_entropy over the tokens, perplexity is exp(-neg_log_perplexity), token_accuracy is the
// share of tokens whose largest logit is the target's, sequence_accuracy that of rows without a wrong token.
// Mesh TensorFlow's transformer computes them so.
#pragma once

#include <optional>
#include <string>
#include <vector>

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

/// Factors of the targets above 0, float32 [batch, length]; null: each counts once.
struct TokenWeights {
  Tensor loss = {};
  Tensor metrics = {};  ///< for all metrics but the loss
};

/// What the sum of the losses of an example is divided by in token_loss().
double token_loss_denominator(const Context& context, const TokenLossOptions& options, const Tensor& targets);

/// Adds loss and metrics to output.logits: [batch, length, vocabulary]; targets: int32 [batch, length]. The
/// loss is the sum over what counts, divided by all positions of the batch (padding included) or by
/// loss_denominator. It widens bfloat16 logits as it reads them, and their gradient is rounded once.
void token_loss(Context& context, const TokenLossOptions& options, const Tensor& targets,
                const TokenWeights& weights, const std::string& vocabulary, ModelOutput& output);

}  // namespace mtf
