// Tables of token embeddings: from ids to vectors, and from vectors to logits.
//
//   const std::unique_ptr<TokenEmbedding> embedding =
//       make_embedding(options, {"vocab", 32128}, {"d_model", 512});
//   Tensor x = embedding->embed(context, ids);       // variables in the current scope
#pragma once

#include <memory>
#include <variant>

#include "engine/config/schema.h"
#include "layers/context.h"

namespace mtf {

/// One table E [vocab, d_model] with normal initial values of deviation 1: x = E[id]; logits =
/// h / sqrt(d_model) · E^T. (Mesh TensorFlow's VocabEmbedding.)
struct VocabEmbedding {
  static constexpr std::string_view type_name = "vocab";
  bool scale_like_classifier = false;
  bool scale_logits = true;
};
/// E = E1 · E2, E1 [vocab, inner_size], E2 [inner_size, d_model], both of deviation inner_size^-1/4. Lan et
/// al., ALBERT, 2020, §3.1.
struct FactorizedEmbedding {
  static constexpr std::string_view type_name = "factorized";
  int64_t inner_size = 0;
};
using EmbeddingOptions = std::variant<VocabEmbedding, FactorizedEmbedding>;
void describe(config::Visitor& visit, VocabEmbedding& options);
void describe(config::Visitor& visit, FactorizedEmbedding& options);

class TokenEmbedding {
 public:
  virtual ~TokenEmbedding() = default;
  /// ids: int32 [..] -> [.., model] in the activation dtype; ids outside the vocabulary give zeros.
  virtual Tensor embed(Context& context, const Tensor& ids) const = 0;
  /// hidden: [.., model] -> [.., vocabulary]
  virtual Tensor logits(Context& context, const Tensor& hidden) const = 0;
};

std::unique_ptr<TokenEmbedding> make_embedding(const EmbeddingOptions& options, const Dimension& vocabulary,
                                               const Dimension& model);

}  // namespace mtf
