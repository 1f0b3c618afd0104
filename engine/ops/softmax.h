// Softmax, log-softmax and log-sum-exp along one named dimension as fused operations, which make one pass
// over rows that stay in the cache; the same holds for the gradients. If the dimension is split, they expand
// to plain operations with collectives in between.
//
// `extra_logit` (a number of the host) acts as one more class that is dropped from the output: softmax([1,
// 2], extra 0) = [0.244728, 0.665241].
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/graph/graph.h"
#include "engine/ops/fused.h"

namespace mtf {

/// Returns log(sum over `dimension` of exp(x) [+ exp(extra_logit)]) in the shape of x without `dimension`;
/// float32 if x is bfloat16.
Tensor reduce_logsumexp(const Tensor& x, const std::string& dimension,
                        std::optional<double> extra_logit = {});
/// Returns exp(x) / (sum over `dimension` of exp(x) [+ exp(extra_logit)]) in the shape of x.
Tensor softmax(const Tensor& x, const std::string& dimension, std::optional<double> extra_logit = {});
/// Returns log(softmax(x)) in the shape of x.
Tensor log_softmax(const Tensor& x, const std::string& dimension, std::optional<double> extra_logit = {});

/// Common base of the operations that normalise over one dimension of their first input.
class AlongDimension : public Operation {
 public:
  AlongDimension(Tensors inputs, std::vector<OutputInfo> outputs, std::string dimension,
                 std::optional<double> extra_logit = {})
      : Operation(std::move(inputs), std::move(outputs)),
        dimension(std::move(dimension)),
        extra_logit(extra_logit) {}
  std::string attributes() const override;
  bool needs_expansion(const ShardingRequest& request) const override {
    return request.rules.splits(dimension);
  }

  std::string dimension;
  std::optional<double> extra_logit;
};

class LogSumExp final : public AlongDimension {
 public:
  LogSumExp(const Tensor& x, const std::string& dimension, std::optional<double> extra_logit);
  std::string_view name() const override { return "logsumexp"; }
  std::unique_ptr<Operation> clone() const override { return std::make_unique<LogSumExp>(*this); }
  Tensors gradient(const Tensors& dy) const override;
  Tensors expand(const Tensors& inputs, const LayoutMap&) const override;
};

/// Computes dx = exp(x - logsumexp) * dy. Inputs: x, logsumexp, dy. It needs no communication, however x is
/// split.
class LogSumExpGradient final : public AlongDimension {
 public:
  LogSumExpGradient(const Tensor& x, const Tensor& logsumexp, const Tensor& dy, const std::string& dimension)
      : AlongDimension({x, logsumexp, dy}, {{x.shape(), x.dtype()}}, dimension) {}
  Tensors gradient(const Tensors&) const override { not_differentiable(*this); }
  std::string_view name() const override { return "logsumexp_gradient"; }
  std::unique_ptr<Operation> clone() const override { return std::make_unique<LogSumExpGradient>(*this); }
  bool needs_expansion(const ShardingRequest&) const override { return false; }
  std::optional<int> in_place(int) const override { return 0; }
};

class Softmax final : public AlongDimension {
 public:
  Softmax(const Tensor& x, const std::string& dimension, std::optional<double> extra_logit)
      : AlongDimension({x}, {{x.shape(), x.dtype()}}, dimension, extra_logit) {}
  std::string_view name() const override { return "softmax"; }
  std::unique_ptr<Operation> clone() const override { return std::make_unique<Softmax>(*this); }
  Tensors gradient(const Tensors& dy) const override;
  Tensors expand(const Tensors& inputs, const LayoutMap&) const override;
  std::optional<int> in_place(int) const override { return 0; }
};

/// Computes dx = y * (dy - sum(y * dy)). Inputs: y, dy.
class SoftmaxGradient final : public AlongDimension {
 public:
  SoftmaxGradient(const Tensor& y, const Tensor& dy, const std::string& dimension)
      : AlongDimension({y, dy}, {{y.shape(), y.dtype()}}, dimension) {}
  Tensors gradient(const Tensors&) const override { not_differentiable(*this); }
  std::string_view name() const override { return "softmax_gradient"; }
  std::unique_ptr<Operation> clone() const override { return std::make_unique<SoftmaxGradient>(*this); }
  Tensors expand(const Tensors& inputs, const LayoutMap&) const override;
  std::optional<int> in_place(int) const override { return 1; }
};

class LogSoftmax final : public AlongDimension {
 public:
  LogSoftmax(const Tensor& x, const std::string& dimension, std::optional<double> extra_logit)
      : AlongDimension({x}, {{x.shape(), x.dtype()}}, dimension, extra_logit) {}
  std::string_view name() const override { return "log_softmax"; }
  std::unique_ptr<Operation> clone() const override { return std::make_unique<LogSoftmax>(*this); }
  Tensors gradient(const Tensors& dy) const override;
  Tensors expand(const Tensors& inputs, const LayoutMap&) const override;
  std::optional<int> in_place(int) const override { return 0; }
};

/// Computes dx = dy - exp(y) * sum(dy). Inputs: y, dy.
class LogSoftmaxGradient final : public AlongDimension {
 public:
  LogSoftmaxGradient(const Tensor& y, const Tensor& dy, const std::string& dimension)
      : AlongDimension({y, dy}, {{y.shape(), y.dtype()}}, dimension) {}
  Tensors gradient(const Tensors&) const override { not_differentiable(*this); }
  std::string_view name() const override { return "log_softmax_gradient"; }
  std::unique_ptr<Operation> clone() const override { return std::make_unique<LogSoftmaxGradient>(*this); }
  Tensors expand(const Tensors& inputs, const LayoutMap&) const override;
  std::optional<int> in_place(int) const override { return 1; }
};

}  // namespace mtf
