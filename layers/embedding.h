// Tables of token embeddings: from ids to vectors, and from vectors to logits. An embedding is one file of embeddings/.
//
//   const std::unique_ptr<TokenEmbedding> embedding = options->make({"vocab", 32128}, {"d_model", 512});
//   Tensor x = embedding->embed(context, ids);       // variables in the current scope
#pragma once

#include <memory>
#include <string_view>

#include "engine/config/choice.h"
#include "layers/context.h"

namespace mtf {

/// The dimension of the tokens of a vocabulary.
inline constexpr std::string_view kVocabularyDimension = "vocab";

class TokenEmbedding {
 public:
  virtual ~TokenEmbedding() = default;
  /// ids: int32 [..] -> [.., model] in the activation dtype; ids outside the vocabulary give zeros.
  virtual Tensor embed(Context& context, const Tensor& ids) const = 0;
  /// hidden: [.., model] -> [.., vocabulary]
  virtual Tensor logits(Context& context, const Tensor& hidden) const = 0;
};

struct EmbeddingOptions {
  static constexpr std::string_view default_type = "vocab";
  virtual ~EmbeddingOptions() = default;
  virtual std::unique_ptr<TokenEmbedding> make(const Dimension& vocabulary, const Dimension& model) const = 0;
};
using Embedding = config::Choice<EmbeddingOptions>;

/// x: [.., from], kernel: [from, to] -> [.., to]
Tensor project(const Tensor& x, const Dimension& from, const Tensor& kernel, const Dimension& to);

}  // namespace mtf
