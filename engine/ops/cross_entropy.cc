#include "engine/ops/cross_entropy.h"

#include <fmt/format.h>

#include "engine/ops/binary.h"
#include "engine/ops/broadcast.h"
#include "engine/ops/cast.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"

namespace mtf {
namespace {

constexpr std::string_view kCrossEntropy = "softmax_cross_entropy";

Shape rows_of(const Tensor& logits, const std::string& vocab) {
  return logits.shape() - logits.shape().dimension(vocab);
}

/// Describes an output with one number for each row.
OutputInfo per_row(const Tensor& logits, const std::string& vocab) {
  return {rows_of(logits, vocab), accumulation_dtype(logits.dtype())};
}

void check(const Tensor& logits, const Tensor& targets, const std::string& vocab,
           const CrossEntropyOptions& options) {
  if (!is_floating(logits.dtype())) {
    shape_error(kCrossEntropy, fmt::format("needs floating-point logits, not {}", name_of(logits.dtype())));
  }
  if (!logits.shape().contains(vocab)) {
    shape_error(kCrossEntropy,
                fmt::format("the logits {} have no dimension `{}`", logits.shape().to_string(), vocab));
  }
  const bool soft = is_floating(targets.dtype());
  const Shape expected = soft ? logits.shape() : rows_of(logits, vocab);
  if (!same_dimensions(targets.shape(), expected)) {
    shape_error(kCrossEntropy,
                fmt::format("{} targets have shape {}", soft ? "floating-point" : "integer",
                            targets.shape().to_string()),
                fmt::format("the dimensions {}", expected.to_string()));
  }
  if (soft ? targets.dtype() != logits.dtype() : targets.dtype() != DType::kInt32) {
    shape_error(kCrossEntropy, fmt::format("the targets are {}", name_of(targets.dtype())),
                fmt::format("int32 ids, or {} as the logits", name_of(logits.dtype())));
  }
  if (soft && options.label_smoothing != 0) {
    shape_error(kCrossEntropy, "label smoothing applies to integer targets", "smooth the targets themselves");
  }
}

}  // namespace

CrossEntropy softmax_cross_entropy(const Tensor& logits, const Tensor& targets, const std::string& vocab,
                                   const CrossEntropyOptions& options) {
  check(logits, targets, vocab, options);
  const bool soft = is_floating(targets.dtype());
  const Tensor ordered = transpose(targets, soft ? logits.shape() : rows_of(logits, vocab));
  const auto& operation = logits.graph().add<SoftmaxCrossEntropy>(logits, ordered, vocab, options);
  return {operation.output(0), operation.output(1)};
}

Tensor sigmoid_cross_entropy(const Tensor& logits, const Tensor& targets) {
  if (!same_dimensions(logits.shape(), targets.shape())) {
    shape_error("sigmoid_cross_entropy",
                fmt::format("logits {} and targets {} differ", logits.shape().to_string(),
                            targets.shape().to_string()));
  }
  const Tensor z = transpose(targets, logits.shape());
  return relu(logits) - logits * z + softplus(negative(abs(logits)));
}

SoftmaxCrossEntropy::SoftmaxCrossEntropy(const Tensor& logits, const Tensor& targets,
                                         const std::string& vocab, const CrossEntropyOptions& options)
    : OperationBase({logits, targets}, std::vector<OutputInfo>(3, per_row(logits, vocab))),
      vocab(vocab),
      options(options) {}

std::string SoftmaxCrossEntropy::attributes() const {
  return fmt::format("vocab={}, z_loss={}, label_smoothing={}", vocab, options.z_loss,
                     options.label_smoothing);
}

Tensors SoftmaxCrossEntropy::gradient(const Tensors& dy) const {
  const Tensor logits = input(0), targets = input(1), log_z = output(1);
  const auto given = [&](const Tensor& t) {
    return t ? t : graph().constant(0, log_z.dtype(), log_z.shape());
  };
  const Tensor d_loss = given(dy[0]), d_log_z = given(dy[1]);
  const Tensor d_logits = graph()
                              .add<SoftmaxCrossEntropyGradient>(
                                  Tensors{logits, targets, log_z, output(2), d_loss, d_log_z}, vocab, options)
                              .output();
  if (!is_floating(targets.dtype())) return {d_logits, {}};
  const DType dtype = log_z.dtype();
  const Tensor surprise = subtract(log_z, cast(logits, dtype), logits.shape());
  return {d_logits, cast(multiply(surprise, d_loss, logits.shape()), targets.dtype())};
}

Tensors SoftmaxCrossEntropy::expand(const Tensors& inputs, const LayoutMap&) const {
  const Tensor logits = inputs[0];
  const Tensor top = cast(reduce_max(logits, rows_of(logits, vocab)), accumulation_dtype(logits.dtype()));
  const auto& sums =
      logits.graph().add<CrossEntropySums>(logits, inputs[1], top, vocab, options.label_smoothing);
  const Tensor log_sum = log(sums.output(0)), target_logit = sums.output(1), target_sum = sums.output(2);
  const Tensor log_z = log_sum + top;
  // target_logit and log_sum are both relative to the maximum.
  Tensor loss = target_sum * log_sum - target_logit;
  if (options.z_loss != 0) loss = loss + scalar_multiply(square(log_z), options.z_loss);
  return {loss, log_z, target_sum};
}

SoftmaxCrossEntropyGradient::SoftmaxCrossEntropyGradient(Tensors inputs, const std::string& vocab,
                                                         const CrossEntropyOptions& options)
    : OperationBase(inputs, {{inputs[0].shape(), inputs[0].dtype()}}), vocab(vocab), options(options) {}

std::string SoftmaxCrossEntropyGradient::attributes() const {
  return fmt::format("vocab={}, z_loss={}, label_smoothing={}", vocab, options.z_loss,
                     options.label_smoothing);
}

CrossEntropySums::CrossEntropySums(const Tensor& logits, const Tensor& targets, const Tensor& maximum,
                                   const std::string& vocab, double label_smoothing)
    : OperationBase({logits, targets, maximum}, std::vector<OutputInfo>(3, per_row(logits, vocab))),
      vocab(vocab),
      label_smoothing(label_smoothing) {}

std::string CrossEntropySums::attributes() const {
  return fmt::format("vocab={}, label_smoothing={}", vocab, label_smoothing);
}

ShardingRule CrossEntropySums::sharding_rule(const ShardingRequest& request) const {
  return shard_reduction(*this, request, {input(0).shape().dimension(vocab)}, Reduction::kSum);
}

}  // namespace mtf
