#include "models/token_loss.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "engine/graph/gradients.h"
#include "engine/graph/structural.h"
#include "engine/ops/binary.h"
#include "engine/ops/cast.h"
#include "engine/ops/cross_entropy.h"
#include "engine/ops/reduce.h"
#include "engine/ops/reshape.h"
#include "engine/ops/slice.h"
#include "engine/ops/stack.h"
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

constexpr const char* kChunk = "_chunk";

/// float32 [batch, length]: the targets above 0 with their weights.
Tensor counts_of(const Tensor& targets, const Tensor& weights) {
  const Tensor zero = targets.graph().constant(0, targets.dtype());
  const Tensor counts = cast(greater(targets, zero), DType::kFloat32);
  return weights ? multiply(counts, weights) : counts;
}

/// What is known of each token, float32 [batch, length].
struct TokenValues {
  Tensor loss;
  // In evaluation:
  Tensor cross_entropy = {};
  Tensor hit = {};  ///< 1 where the target has the largest logit
};

TokenValues token_values(Context& context, const TokenLossOptions& options, const Tensor& logits,
                         const Tensor& ids, const TokenPrediction& prediction) {
  const auto scope = context.graph().scope(prediction.scope);
  const std::string& vocabulary = prediction.vocabulary;
  const CrossEntropyOptions terms{.z_loss = context.training() ? options.z_loss : 0,
                                  .label_smoothing = options.label_smoothing};
  TokenValues values{softmax_cross_entropy(logits, ids, vocabulary, terms).loss};
  if (context.training()) return values;
  values.cross_entropy = softmax_cross_entropy(logits, ids, vocabulary).loss;
  values.hit = cast(equal(argmax(logits, vocabulary), ids), DType::kFloat32);
  return values;
}

/// `ids`: the targets, without those below 0.
void add_metrics(const Tensor& ids, const Tensor& counts, const TokenValues& values, const Shape& examples,
                 ModelOutput& output) {
  Graph& graph = ids.graph();
  const auto of_examples = [&](const Tensor& x) { return reduce_sum(multiply(x, counts), examples); };
  const Tensor tokens = reduce_sum(counts, examples), none = graph.constant(0);
  const Tensor cost = of_examples(values.cross_entropy), hits = values.hit;
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

/// The places of a row in chunks: place n * p + i of `length` is place p of chunk i.
class Chunks {
 public:
  Chunks(const Dimension& length, int64_t count)
      : whole_(length), part_{length.name, length.size / count}, chunk_{kChunk, count} {}

  int64_t count() const { return chunk_.size; }
  /// [.., part, chunk, ..]
  Tensor divided(const Tensor& x) const { return replace_dimensions(x, Shape{whole_}, Shape{part_, chunk_}); }
  /// Chunk i of what divided() has returned.
  Tensor chunk(const Tensor& divided, int64_t i) const {
    return reshape(slice(divided, kChunk, i, 1), divided.shape() - chunk_);
  }
  Tensor joined(const Tensors& chunks) const {
    const int axis = *chunks[0].shape().find(part_.name) + 1;
    return replace_dimensions(stack(chunks, kChunk, axis), Shape{part_, chunk_}, Shape{whole_});
  }

 private:
  Dimension whole_, part_, chunk_;
};

/// The number of chunks of rows of `length` tokens.
int64_t number_of_chunks(const Context& context, const Dimension& length) {
  int64_t divisor = std::min(context.loss_chunks(), length.size);
  while (length.size % divisor != 0) --divisor;
  if (context.training() && divisor != context.loss_chunks()) {
    throw LossChunksError(
        ErrorKind::kConfig,
        fmt::format(
            "`train.loss_chunks` is {}, which does not divide the {} places of a row that have a loss",
            context.loss_chunks(), length.size),
        fmt::format("a divisor of {}, such as {}", length.size, divisor));
  }
  return divisor;
}

/// Adds each of `terms` to its sum in float32, so that sums of many parts are rounded once.
void add_to(Tensors& sums, const Tensors& terms) {
  sums.resize(terms.size());
  for (size_t i = 0; i < terms.size(); ++i) {
    if (!terms[i]) continue;
    const Tensor term = cast(terms[i], DType::kFloat32);
    sums[i] = sums[i] ? add(sums[i], term) : term;
  }
}

/// What is read of the tokens of each chunk: hidden states, ids, weights. A chunk is cut out when it is asked for: products of
/// chunks that are there before are made as one (stack_products), with all logits at once.
std::function<Tensors(int64_t)> parts_of(const Chunks& chunks, const Tensor& hidden, const Tensor& ids,
                                         const Tensor& weights) {
  const Tensors divided{chunks.divided(hidden), chunks.divided(ids), chunks.divided(weights)};
  return [chunks, divided](int64_t i) {
    Tensors part;
    for (const Tensor& x : divided) part.push_back(chunks.chunk(x, i));
    return part;
  };
}

/// Returns sum, a function of `inputs` with these gradients.
Tensor with_gradients(const Tensor& sum, const Tensors& inputs, const Tensors& gradients) {
  const auto gradient = [gradients](const Tensors& read, const Tensors&, const Tensors& dy) {
    Tensors scaled(gradients.size());
    for (size_t i = 0; i < gradients.size(); ++i) {
      const Tensor& dx = gradients[i];
      if (dx) scaled[i] = cast(multiply(dx, cast(dy[0], dx.dtype()), dx.shape()), read[i].dtype());
    }
    return scaled;
  };
  return custom_gradient([&sum](const Tensors&) { return Tensors{sum}; }, inputs, gradient)[0];
}

/// Values of tokens, and the sum of loss * weights with its gradient.
std::pair<TokenValues, Tensor> trained_chunks(Context& context, const TokenLossOptions& options,
                                              const TokenPrediction& prediction, const Chunks& chunks,
                                              const std::function<Tensors(int64_t)>& parts) {
  const auto scope_of_loss = [&] { return context.graph().scope(prediction.scope); };
  const auto values_of = [&](const Tensors& part) -> Tensors {
    const Tensor losses =
        token_values(context, options, prediction.logits_of(part[0]), part[1], prediction).loss;
    const auto scope = scope_of_loss();
    return {reduce_sum(multiply(losses, part[2]), Shape{}), losses};
  };
  // Nothing of the forward pass waits for it: in a pipeline, too, a part is done before the next one.
  const auto phase = context.graph().phase(Phase::kBackward);
  Tensors totals, losses, hidden_gradients, source_gradients;
  Tensors inputs = in_parts(values_of, chunks.count(), parts, true, [&](const PartOfWork& work) {
    totals.push_back(work.results[0]);
    losses.push_back(work.results[1]);
    hidden_gradients.push_back(work.gradient[0]);
    const auto scope = scope_of_loss();
    add_to(source_gradients, work.source_gradient);
  });
  const auto scope = scope_of_loss();
  Tensors gradients = source_gradients;
  inputs.push_back(prediction.hidden);
  gradients.push_back(chunks.joined(hidden_gradients));
  return {TokenValues{chunks.joined(losses)}, with_gradients(add_n(totals), inputs, gradients)};
}

TokenValues evaluated_chunks(Context& context, const TokenLossOptions& options,
                             const TokenPrediction& prediction, const Chunks& chunks,
                             const std::function<Tensors(int64_t)>& parts) {
  const auto values_of = [&](const Tensors& part) -> Tensors {
    const Tensor logits = prediction.logits_of(part[0]);
    const TokenValues values = token_values(context, options, logits, part[1], prediction);
    return {values.loss, values.cross_entropy, values.hit};
  };
  Tensors losses, costs, hits;
  in_parts(values_of, chunks.count(), parts, false, [&](const PartOfWork& work) {
    losses.push_back(work.results[0]);
    costs.push_back(work.results[1]);
    hits.push_back(work.results[2]);
  });
  const auto scope = context.graph().scope(prediction.scope);
  return {chunks.joined(losses), chunks.joined(costs), chunks.joined(hits)};
}

}  // namespace

double token_loss_denominator(const Context& context, const TokenLossOptions& options,
                              const Tensor& targets) {
  const double examples = static_cast<double>(context.batch().size);
  if (!options.loss_denominator) return static_cast<double>(targets.shape().size()) / examples;
  const double parts = static_cast<double>(targets.graph().microbatching().count);
  return *options.loss_denominator / (examples * parts);
}

void token_loss(Context& context, const TokenLossOptions& options, const TokenPrediction& prediction,
                const Tensor& targets, const TokenWeights& weights, ModelOutput& output) {
  Graph& graph = context.graph();
  const auto scope_of_loss = [&] { return graph.scope(prediction.scope); };
  const Shape examples{context.batch()};
  const double denominator = token_loss_denominator(context, options, targets);
  Tensor counts, ids;
  {
    const auto scope = scope_of_loss();
    counts = counts_of(targets, weights.loss);
    ids = maximum(targets, graph.constant(0, targets.dtype()));
  }
  const Dimension length = (targets.shape() - examples)[0];
  TokenValues values;
  Tensor total;
  const Chunks chunks(length, number_of_chunks(context, length));
  if (chunks.count() == 1) {
    output.logits = prediction.logits_of(prediction.hidden);
    output.class_losses = {{.logits = output.logits,
                            .classes = prediction.vocabulary,
                            .known = context.vocabulary("targets"),
                            .weights = counts,
                            .scale = 1 / denominator,
                            .z_loss = options.z_loss}};
    values = token_values(context, options, output.logits, ids, prediction);
  } else {
    const auto parts = parts_of(chunks, prediction.hidden, ids, counts);
    if (context.training()) {
      std::tie(values, total) = trained_chunks(context, options, prediction, chunks, parts);
    } else {
      values = evaluated_chunks(context, options, prediction, chunks, parts);
    }
  }
  const auto scope = scope_of_loss();
  const Tensor sums = reduce_sum(multiply(values.loss, counts), examples);
  const double batch = static_cast<double>(context.batch().size);
  output.loss = total ? scalar_multiply(total, 1 / (denominator * batch))
                      : scalar_multiply(reduce_mean(sums, Shape{}), 1 / denominator);
  output.tokens = reduce_sum(counts, examples);
  output.metrics["loss"] = {sums, output.tokens};
  if (!context.training()) add_metrics(ids, counts_of(targets, weights.metrics), values, examples, output);
}

}  // namespace mtf
