#include "layers/embedding.h"

#include <cmath>

#include "engine/ops/einsum.h"
#include "engine/ops/indexing.h"
#include "engine/ops/unary.h"

namespace mtf {

void describe(config::Visitor& visit, VocabEmbedding& options) {
  visit("scale_like_classifier", options.scale_like_classifier,
        "initial values are smaller by sqrt(d_model), and vectors larger, so that logits need no scale");
  visit("scale_logits", options.scale_logits,
        "logits are divided by sqrt(d_model), unless scale_like_classifier makes that needless; false: T5 "
        "v1.1 where "
        "its softmax weights are the embedding");
}

void describe(config::Visitor& visit, FactorizedEmbedding& options) {
  visit("inner_size", options.inner_size, "size of the narrow embedding", config::positive, config::required);
}

namespace {

Tensor project(const Tensor& x, const Dimension& from, const Tensor& kernel, const Dimension& to) {
  return einsum({x, kernel}, x.shape() - Shape{from} + Shape{to});
}

/// One table E [vocab, d_model] ~ N(1): logits = h / sqrt(d_model) · E.
class Vocab final : public TokenEmbedding {
 public:
  Vocab(const VocabEmbedding& options, const Dimension& vocabulary, const Dimension& model)
      : options_(options),
        vocabulary_(vocabulary),
        model_(model),
        root_(std::sqrt(static_cast<double>(model.size))) {}

  Tensor embed(Context& context, const Tensor& ids) const override {
    const Tensor x = gather(table(context), ids, vocabulary_.name);
    return options_.scale_like_classifier ? scalar_multiply(x, root_) : x;
  }
  Tensor logits(Context& context, const Tensor& hidden) const override {
    const bool scaled = options_.scale_logits && !options_.scale_like_classifier;
    const Tensor h = scaled ? scalar_multiply(hidden, 1 / root_) : hidden;
    return project(h, model_, table(context), vocabulary_);
  }

 private:
  Tensor table(Context& context) const {
    const double scale = options_.scale_like_classifier ? 1 : root_;
    return context.variable("embedding", {vocabulary_, model_}, Initializer::normal(scale / root_), scale);
  }

  VocabEmbedding options_;
  Dimension vocabulary_, model_;
  double root_;
};

/// E = E1 E2, E1 [vocab, inner], E2 [inner, d_model], both ~ N(inner^-1/4).
class Factorized final : public TokenEmbedding {
 public:
  Factorized(const FactorizedEmbedding& options, const Dimension& vocabulary, const Dimension& model)
      : vocabulary_(vocabulary), model_(model), inner_{"inner_vocab", options.inner_size} {}

  Tensor embed(Context& context, const Tensor& ids) const override {
    return project(gather(outer(context), ids, vocabulary_.name), inner_, inner(context), model_);
  }
  Tensor logits(Context& context, const Tensor& hidden) const override {
    const Tensor h = scalar_multiply(hidden, 1 / std::sqrt(static_cast<double>(model_.size)));
    return project(project(h, model_, inner(context), inner_), inner_, outer(context), vocabulary_);
  }

 private:
  Initializer initializer() const {
    return Initializer::normal(std::pow(static_cast<double>(inner_.size), -0.25));
  }
  /// Against matrices of variance 1 / inner.
  double step_scale() const { return std::pow(static_cast<double>(inner_.size), 0.25); }
  Tensor outer(Context& context) const {
    return context.variable("factorized_embedding_1", {vocabulary_, inner_}, initializer(), step_scale());
  }
  Tensor inner(Context& context) const {
    return context.variable("factorized_embedding_2", {inner_, model_}, initializer(), step_scale());
  }

  Dimension vocabulary_, model_, inner_;
};

}  // namespace

std::unique_ptr<TokenEmbedding> make_embedding(const EmbeddingOptions& options, const Dimension& vocabulary,
                                               const Dimension& model) {
  if (const auto* factorized = std::get_if<FactorizedEmbedding>(&options))
    return std::make_unique<Factorized>(*factorized, vocabulary, model);
  return std::make_unique<Vocab>(std::get<VocabEmbedding>(options), vocabulary, model);
}

}  // namespace mtf
