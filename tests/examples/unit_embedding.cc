// The embedding `unit`: vectors of one length. x = E[id] / rms(E[id]); logits = h / sqrt(d_model) E^T.
#include <cmath>

#include "engine/ops/binary.h"
#include "engine/ops/cast.h"
#include "engine/ops/indexing.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"
#include "layers/embedding.h"

namespace mtf {
namespace {

struct UnitEmbedding final : EmbeddingOptions {
  static constexpr std::string_view type_name = "unit";
  double epsilon = 1e-6;

  std::unique_ptr<TokenEmbedding> make(const Dimension& vocabulary, const Dimension& model) const override;
};

void describe(config::Visitor& visit, UnitEmbedding& options) {
  visit("epsilon", options.epsilon, "added to the mean square of a vector", config::positive);
}

class Unit final : public TokenEmbedding {
 public:
  Unit(const UnitEmbedding& options, const Dimension& vocabulary, const Dimension& model)
      : options_(options), vocabulary_(vocabulary), model_(model) {}

  Tensor embed(Context& context, const Tensor& ids) const override {
    const Tensor x = gather(table(context), ids, vocabulary_.name);
    const Tensor mean_square = reduce_mean(square(cast(x, DType::kFloat32)), model_);
    return multiply(x, cast(rsqrt(scalar_add(mean_square, options_.epsilon)), x.dtype()), x.shape());
  }
  Tensor logits(Context& context, const Tensor& hidden) const override {
    const Tensor h = scalar_multiply(hidden, 1 / std::sqrt(static_cast<double>(model_.size)));
    return project(h, model_, table(context), vocabulary_);
  }

 private:
  Tensor table(Context& context) const {
    return context.variable("embedding", {vocabulary_, model_}, Initializer::normal(1));
  }

  UnitEmbedding options_;
  Dimension vocabulary_, model_;
};

std::unique_ptr<TokenEmbedding> UnitEmbedding::make(const Dimension& vocabulary,
                                                    const Dimension& model) const {
  return std::make_unique<Unit>(*this, vocabulary, model);
}

const config::Registration<EmbeddingOptions, UnitEmbedding> unit;

}  // namespace
}  // namespace mtf
