#include "models/token_loss.h"

#include "engine/ops/binary.h"
#include "engine/ops/cast.h"
#include "engine/ops/component_wise.h"
#include "engine/ops/cross_entropy.h"
#include "engine/ops/reduce.h"
#include "engine/ops/top_k.h"

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
  return {"loss", "perplexity", "token_accuracy", "sequence_accuracy"};
}

void token_loss(Context& context, const TokenLossOptions& options, const Tensor& targets,
                const Tensor& weights, const std::string& vocabulary, ModelOutput& output) {
  const Shape examples{context.batch()};
  const Tensor zero = context.graph().constant(0, targets.dtype());
  Tensor counts = cast(greater(targets, zero), DType::kFloat32);
  if (weights) counts = multiply(counts, weights);
  const Tensor ids = maximum(targets, zero);
  const CrossEntropyOptions terms{.z_loss = context.training() ? options.z_loss : 0,
                                  .label_smoothing = options.label_smoothing};
  const auto of_examples = [&](const Tensor& x) { return reduce_sum(multiply(x, counts), examples); };
  const Tensor losses = softmax_cross_entropy(output.logits, ids, vocabulary, terms).loss;
  const double positions = static_cast<double>((targets.shape() - examples).size());
  const double parts = static_cast<double>(context.graph().microbatching().count);
  const double denominator =
      options.loss_denominator
          ? *options.loss_denominator / (static_cast<double>(context.batch().size) * parts)
          : positions;
  const Tensor sums = of_examples(losses);
  output.loss = scalar_multiply(reduce_mean(sums, Shape{}), 1 / denominator);
  output.tokens = reduce_sum(counts, examples);
  output.metrics["loss"] = {sums, output.tokens};
  if (context.training()) return;
  const Tensor likelihood = softmax_cross_entropy(output.logits, ids, vocabulary).loss;
  output.metrics["perplexity"] = {of_examples(likelihood), output.tokens};
  const Tensor hits = cast(equal(argmax(output.logits, vocabulary), ids), DType::kFloat32);
  output.metrics["token_accuracy"] = {of_examples(hits), output.tokens};
  const Tensor missed = of_examples(subtract(context.graph().constant(1), hits, hits.shape()));
  const Tensor none = context.graph().constant(0);
  const Tensor counted = cast(greater(output.tokens, none), DType::kFloat32);
  output.metrics["sequence_accuracy"] = {multiply(cast(equal(missed, none), DType::kFloat32), counted),
                                         counted};
}

}  // namespace mtf
