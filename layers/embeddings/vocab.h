// One table E [vocab, d_model] with normal initial values of deviation 1: x = E[id]; logits = h / sqrt(d_model) E^T.
// It is Mesh TensorFlow's VocabEmbedding.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "layers/embedding.h"
#include "layers/initializer.h"

namespace mtf {

struct VocabEmbedding final : EmbeddingOptions {
  static constexpr std::string_view type_name = "vocab";
  bool scale_like_classifier = false;
  bool scale_logits = true;
  std::optional<InitializerOptions> initializer;

  std::unique_ptr<TokenEmbedding> make(const Dimension& vocabulary, const Dimension& model) const override;
};

void describe(config::Visitor& visit, VocabEmbedding& options);

}  // namespace mtf
