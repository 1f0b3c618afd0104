#include "layers/embeddings/vocab.h"

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
    const Initializer initializer =
        options_.initializer ? make_initializer(*options_.initializer, vocabulary_.size, model_.size)
                             : Initializer::normal(scale / root_);
    return context.variable("embedding", {vocabulary_, model_}, initializer, scale);
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
