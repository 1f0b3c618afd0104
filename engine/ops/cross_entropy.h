// Cross-entropy losses. The softmax cross-entropy is fused: it stores neither one-hot targets nor
// probabilities.
//
//   const CrossEntropy e = softmax_cross_entropy(logits, targets, "vocab", {.z_loss = 1e-4});
//   // logits: [batch, length, vocab], targets: int [batch, length]; e.loss, e.log_z: [batch, length]
//
// With W = the sum of the targets t of a row (1 for an id within range):
//   loss = W * log_z - sum(t * logits) + z_loss * log_z^2,   log_z = logsumexp(logits)
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "engine/graph/graph.h"
#include "engine/ops/fused.h"

namespace mtf {

struct CrossEntropyOptions {
  double z_loss = 0;
  /// For integer targets: the target of the id is 1 - label_smoothing + label_smoothing / vocab, all others
  /// are label_smoothing / vocab.
  double label_smoothing = 0;
};

/// The targets of a row whose target is given as an id.
struct Smoothing {
  double on = 1;   ///< what the id's entry has in addition to `off`
  double off = 0;  ///< value of every entry
};
inline Smoothing smoothing(double label_smoothing, int64_t vocab) {
  return {1 - label_smoothing, label_smoothing / static_cast<double>(vocab)};
}

struct CrossEntropy {
  Tensor loss;   ///< shape of the logits without the vocabulary dimension; float32 if the logits are bfloat16
  Tensor log_z;  ///< log-sum-exp of the logits, with the same shape
};

/// `targets` are integer ids [logits without `vocab`], where an id out of range adds no target term, or have
/// the logits' dtype and dimensions. Throws Error for other shapes, and for label smoothing of floating-point
/// targets.
CrossEntropy softmax_cross_entropy(const Tensor& logits, const Tensor& targets, const std::string& vocab,
                                   const CrossEntropyOptions& options = {});

/// Returns relu(x) - x * z + log(1 + exp(-|x|)) for logits x and targets z with the same dimensions.
Tensor sigmoid_cross_entropy(const Tensor& logits, const Tensor& targets);

/// Inputs: logits, targets. Outputs: loss, log_z, and the sum of the targets of each row.
class SoftmaxCrossEntropy final : public OperationBase<SoftmaxCrossEntropy> {
 public:
  SoftmaxCrossEntropy(const Tensor& logits, const Tensor& targets, const std::string& vocab,
                      const CrossEntropyOptions& options);
  std::string_view name() const override { return "softmax_cross_entropy"; }
  std::string attributes() const override;
  Tensors gradient(const Tensors& dy) const override;
  bool needs_expansion(const ShardingRequest& request) const override { return request.rules.splits(vocab); }
  /// Expands to the maximum, then the sums of exponentials and of targets (partial sums), then the loss.
  Tensors expand(const Tensors& inputs, const LayoutMap&) const override;

  std::string vocab;
  CrossEntropyOptions options;
};

/// Computes d logits = exp(logits - log_z) * (dloss * (W + 2 * z_loss * log_z) + dlog_z) - t * dloss. Inputs:
/// logits, targets, log_z, W, dloss, dlog_z. It needs no communication, however the vocabulary is split.
class SoftmaxCrossEntropyGradient final : public OperationBase<SoftmaxCrossEntropyGradient> {
 public:
  SoftmaxCrossEntropyGradient(Tensors inputs, const std::string& vocab, const CrossEntropyOptions& options);
  Tensors gradient(const Tensors&) const override { not_differentiable(*this); }
  std::string_view name() const override { return "softmax_cross_entropy_gradient"; }
  std::string attributes() const override;
  std::optional<int> in_place(int) const override { return 0; }

  std::string vocab;
  CrossEntropyOptions options;
};

/// One pass over the logits of a slice of the vocabulary. Inputs: logits, targets, and the maximum of each
/// row, at least that of the slice. Outputs: sum(exp(logits - maximum)), sum(t * (logits - maximum)), sum(t);
/// they are partial sums if the vocabulary is split.
class CrossEntropySums final : public OperationBase<CrossEntropySums> {
 public:
  CrossEntropySums(const Tensor& logits, const Tensor& targets, const Tensor& maximum,
                   const std::string& vocab, double label_smoothing);
  Tensors gradient(const Tensors&) const override { not_differentiable(*this); }
  std::string_view name() const override { return "cross_entropy_sums"; }
  std::string attributes() const override;
  ShardingRule sharding_rule(const ShardingRequest& request) const override;

  std::string vocab;
  double label_smoothing;
};

}  // namespace mtf
