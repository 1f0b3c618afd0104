#include "layers/embeddings/vocab.h"

#include <algorithm>
#include <cmath>

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
  visit("initializer", options.initializer, "initial values (default: normal with deviation 1)");
}

namespace {

/// The standard deviation of initial values; of a truncated normal before the truncation.
double deviation(const Initializer& initializer) {
  switch (initializer.kind) {
    case Initializer::Kind::kConstant:
      return 0;
    case Initializer::Kind::kUniform:
      return initializer.value / std::sqrt(3.0);
    case Initializer::Kind::kNormal:
    case Initializer::Kind::kTruncatedNormal:
      break;
  }
  return initializer.value;
}

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
    const Shape shape{vocabulary_, model_};
    if (options_.initializer) {
      // Adam's usual rates are also for BERT's table, whose deviation 0.02 is less than 1 / sqrt(d_model).
      const Initializer given = make_initializer(*options_.initializer, vocabulary_.size, model_.size);
      return context.variable("embedding", shape, given, std::max(1.0, deviation(given) * root_));
    }
    const double scale = options_.scale_like_classifier ? 1 : root_;
    return context.variable("embedding", shape, Initializer::normal(scale / root_), scale);
  }

  VocabEmbedding options_;
  Dimension vocabulary_, model_;
  double root_;
};

const config::Registration<EmbeddingOptions, VocabEmbedding> vocab;

}  // namespace

std::unique_ptr<TokenEmbedding> VocabEmbedding::make(const Dimension& vocabulary,
                                                     const Dimension& model) const {
  return std::make_unique<Vocab>(*this, vocabulary, model);
}

}  // namespace mtf
