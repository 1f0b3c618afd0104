#include "models/token_loss.h"

#include "engine/ops/binary.h"
#include "engine/ops/cast.h"
#include "engine/ops/cross_entropy.h"
#include "engine/ops/reduce.h"
#include "engine/ops/top_k.h"
#include "engine/ops/unary.h"

namespace mtf {

void describe_token_loss(config::Visitor& visit, TokenLossOptions& options) {
  visit("label_smoothing", options.label_smoothing,
        "part of the target that is spread over the whole vocabulary", config::probability);
  visit("z_loss", options.z_loss, "factor of log_z^2, which keeps logits near zero; in training only",
        config::non_negative);
  visit("loss_denominator", options.loss_denominator,
        "what the sum of the tokens' losses is divided by (default: all positions of a batch, padding "
        "included)",
        config::positive);
}

std::vector<std::string> token_metrics() {
  return {"loss",       "perplexity",      "token_accuracy",    "sequence_accuracy", "neg_log_perplexity",
          "mean_label", "num_eval_tokens", "max_targets_length"};
}

namespace {

/// float32 [batch, length]: the targets above 0 with their weights.
Tensor counts_of(const Tensor& targets, const Tensor& weights) {
  const Tensor zero = targets.graph().constant(0, targets.dtype());
  const Tensor counts = cast(greater(targets, zero), DType::kFloat32);
  return weights ? multiply(counts, weights) : counts;
}

/// `ids`: the targets, without those below 0.
void add_metrics(const Tensor& ids, const Tensor& counts, const std::string& vocabulary,
                 const Shape& examples, ModelOutput& output) {
  Graph& graph = ids.graph();
  const auto of_examples = [&](const Tensor& x) { return reduce_sum(multiply(x, counts), examples); };
  const Tensor tokens = reduce_sum(counts, examples), none = graph.constant(0);
  const Tensor cost = of_examples(softmax_cross_entropy(output.logits, ids, vocabulary).loss);
  const Tensor hits = cast(equal(argmax(output.logits, vocabulary), ids), DType::kFloat32);
  const Tensor missed = of_examples(subtract(graph.constant(1), hits, hits.shape()));
  const Tensor counted = cast(greater(tokens, none), DType::kFloat32);
  const Tensor right = multiply(cast(equal(missed, none), DType::kFloat32), counted);
  output.metrics["perplexity"] = {cost, tokens};
  output.metrics["neg_log_perplexity"] = {negative(cost), tokens};
  output.metrics["token_accuracy"] = {of_examples(hits), tokens};
  output.metrics["sequence_accuracy"] = {right, counted};
  output.metrics["mean_label"] = {of_examples(cast(ids, DType::kFloat32)), tokens};
  output.metrics["num_eval_tokens"] = {tokens, {}, MetricTotal::kSum};
  output.metrics["max_targets_length"] = {tokens, {}, MetricTotal::kMaximum};
}

}  // namespace

double token_loss_denominator(const Context& context, const TokenLossOptions& options,
                              const Tensor& targets) {
  const double examples = static_cast<double>(context.batch().size);
  if (!options.loss_denominator) return static_cast<double>(targets.shape().size()) / examples;
  const double parts = static_cast<double>(targets.graph().microbatching().count);
  return *options.loss_denominator / (examples * parts);
}

void token_loss(Context& context, const TokenLossOptions& options, const Tensor& targets,
                const TokenWeights& weights, const std::string& vocabulary, ModelOutput& output) {
  const Shape examples{context.batch()};
  const Tensor counts = counts_of(targets, weights.loss);
  const Tensor ids = maximum(targets, context.graph().constant(0, targets.dtype()));
  const CrossEntropyOptions terms{.z_loss = context.training() ? options.z_loss : 0,
                                  .label_smoothing = options.label_smoothing};
  const Tensor losses = softmax_cross_entropy(output.logits, ids, vocabulary, terms).loss;
  const double denominator = token_loss_denominator(context, options, targets);
  const Tensor sums = reduce_sum(multiply(losses, counts), examples);
  output.loss = scalar_multiply(reduce_mean(sums, Shape{}), 1 / denominator);
  output.class_losses = {{.logits = output.logits,
                          .classes = vocabulary,
                          .known = context.vocabulary("targets"),
                          .weights = counts,
                          .scale = 1 / denominator,
                          .z_loss = options.z_loss}};
  output.tokens = reduce_sum(counts, examples);
  output.metrics["loss"] = {sums, output.tokens};
  if (!context.training())
    add_metrics(ids, counts_of(targets, weights.metrics), vocabulary, examples, output);
}

}  // namespace mtf
