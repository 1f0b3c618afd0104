// E = E1 E2, E1 [vocab, inner_size], E2 [inner_size, d_model], both of deviation inner_size^-1/4. Lan et al., ALBERT,
// 2020, section 3.1.
#include <cmath>

#include "engine/base/reproducible_math.h"
#include "engine/ops/indexing.h"
#include "engine/ops/unary.h"
#include "layers/embedding.h"

namespace mtf {
namespace {

struct FactorizedEmbedding final : EmbeddingOptions {
  static constexpr std::string_view type_name = "factorized";
  int64_t inner_size = 0;

  std::unique_ptr<TokenEmbedding> make(const Dimension& vocabulary, const Dimension& model) const override;
};

void describe(config::Visitor& visit, FactorizedEmbedding& options) {
  visit("inner_size", options.inner_size, "size of the narrow embedding", config::positive, config::required);
}

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
    return Initializer::normal(reproducible::pow(static_cast<double>(inner_.size), -0.25));
  }
  /// Against matrices of variance 1 / inner.
  double step_scale() const { return reproducible::pow(static_cast<double>(inner_.size), 0.25); }
  Tensor outer(Context& context) const {
    return context.variable("factorized_embedding_1", {vocabulary_, inner_}, initializer(), step_scale());
  }
  Tensor inner(Context& context) const {
    return context.variable("factorized_embedding_2", {inner_, model_}, initializer(), step_scale());
  }

  Dimension vocabulary_, model_, inner_;
};

std::unique_ptr<TokenEmbedding> FactorizedEmbedding::make(const Dimension& vocabulary,
                                                          const Dimension& model) const {
  return std::make_unique<Factorized>(*this, vocabulary, model);
}

const config::Registration<EmbeddingOptions, FactorizedEmbedding> factorized;

}  // namespace
}  // namespace mtf
