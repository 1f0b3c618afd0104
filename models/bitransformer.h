// Encoder and decoder: predicts `targets` from `inputs`. Vaswani et al., Attention Is All You Need, 2017.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "layers/alignment.h"
#include "models/transformer.h"

namespace mtf {

/// Which attention of the decoder to the encoder tells the alignment of tokens, and how much it is taught.
/// The feature of the weights that attention is taught, float32 [batch, length, memory_length].
inline constexpr std::string_view kGuideFeature = "alignment";

struct AlignmentOptions {
  double weight = 0;
  std::optional<int64_t> layer, heads;
};
void describe(config::Visitor& visit, AlignmentOptions& options);

/// What a decoder reads before the first token: padding (id 0), or the end of sequence (id 1).
enum class DecoderStart { kPadding, kEnd };
config::EnumNames enum_names(DecoderStart);

struct BitransformerOptions final : ModelOptions, TokenModelOptions {
  static constexpr std::string_view type_name = "bitransformer";
  static constexpr std::array common_names = {
      CommonName{"encoder_decoder", "`bitransformer`"}, CommonName{"seq2seq", "`bitransformer`"},
      CommonName{"t5", "`bitransformer`"}, CommonName{"translation", "`bitransformer`"},
      CommonName{"nmt", "`bitransformer`"}};
  StackOptions encoder, decoder;
  bool shared_embedding = true;
  std::optional<bool> shared_positions;
  DecoderStart decoder_start = DecoderStart::kPadding;
  AlignmentOptions alignment;

  std::unique_ptr<Model> make(Diagnostics& diagnostics) const override;
};
void describe(config::Visitor& visit, BitransformerOptions& options);

/// Features: inputs, targets, and where the data have them their _segmentation and _position. Without
/// segments what is not 0 is one segment.
class Bitransformer final : public Model, public TextDecoder {
 public:
  Bitransformer(const BitransformerOptions& options, Diagnostics& diagnostics);
  std::vector<std::string> features() const override { return {"inputs", "targets"}; }
  std::vector<std::string> optional_features() const override;
  std::optional<int64_t> positions(int64_t length) const override { return decoder_.positions(length); }
  std::string_view one_embedding() const override {
    return options_.shared_embedding ? "shared_embedding" : "";
  }
  std::vector<std::string> metrics() const override { return token_metrics(); }
  ModelOutput build(Context& context, const Features& features) const override;

  const TextDecoder* decoder() const override { return this; }

  bool has_encoder() const override { return true; }
  int32_t start_token() const override;
  bool predicts_padding() const override { return options_.predict_padding; }
  std::optional<int64_t> longest_text() const override { return decoder_.longest_row(); }
  Tensor prefill(Context& context, const DecodeSizes& sizes, const Prefill& input) const override;
  Tensor step(Context& context, const DecodeSizes& sizes, const Step& input) const override;

 private:
  /// The embeddings of both sides.
  struct Tables {
    Dimension source, target;
    std::unique_ptr<TokenEmbedding> read, written;
  };
  Tables tables(const Context& context) const;

  /// What the decoder looks at.
  struct Memory {
    Tensor states;               ///< [batch, memory_length, d_model]
    Tensor segment;              ///< int32 [batch, memory_length]
    Tensor ids;                  ///< the same
    std::vector<Tensor> layers;  ///< see Sequence::memory_layers
  };
  Memory encode(Context& context, const Tables& tables, const Features& features) const;
  /// [batch, length, d_model] behind the last layer of the decoder.
  Tensor decode(Context& context, const Tables& tables, Sequence& sequence, const Tensor& ids,
                const Tensor& position) const;
  /// hidden: [.., d_model] -> [.., vocab]
  Tensor logits(Context& context, const Tables& tables, const Tensor& hidden) const;

  /// One side up to the first layer; scopes: docs/file_formats.md "Names of variables".
  Tensor read(Context& context, const TransformerStack& stack, const std::string& side,
              const TokenEmbedding& embedding, const Tensor& ids, const Tensor& position,
              const Dimension& length) const;
  bool shares_positions() const;
  /// What the decoder reads for ids that begin with padding; int32 [.., length].
  Tensor begun(const Tensor& ids) const;
  Alignment alignment() const;

  BitransformerOptions options_;
  TransformerStack encoder_, decoder_;
};

}  // namespace mtf
