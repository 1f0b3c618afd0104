// Transformers over rows of token ids: language models and their encoder-only relative.
//
//   lm             predicts each token of `targets` from those before it
//   delimited_lm   the same on rows that hold inputs and targets, one after the other
//   aligned        predicts `targets` from all of `inputs`, position by position
//
// Vaswani et al., Attention Is All You Need, 2017; defaults and losses are those of Mesh TensorFlow's
// Unitransformer.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "layers/embedding.h"
#include "layers/layer_stack.h"
#include "layers/positions.h"
#include "models/model.h"
#include "models/text_decoder.h"
#include "models/token_loss.h"

namespace mtf {

/// Options that language models and encoder-decoders share.
struct TokenModelOptions {
  int64_t d_model = 1024;
  Positions positions = Positions::kLearned;
  int64_t max_length = 512;
  int64_t first_position = 0;
  SublayerOptions around;
  double token_dropout = 0;
  int64_t vocab_divisor = 128;
  Embedding embedding;
  bool shared_embedding_and_softmax = true;
  bool logit_bias = false;
  bool predict_padding = true;
  std::optional<double> logit_soft_cap;
  TokenLossOptions loss;
  config::Node layer_defaults;
  config::Named<config::Node> blocks;
};
void describe_token_model(config::Visitor& visit, TokenModelOptions& options);

/// The vocabulary of a feature, rounded up to a multiple of `divisor`: dimension `vocab`.
Dimension padded_vocabulary(const Context& context, const std::string& feature, int64_t divisor);
/// Throws Error (kConfig) where `option` (Model::one_embedding) is not empty and the vocabularies have different sizes.
void check_one_embedding(std::string_view option, const Dimension& inputs, const Dimension& targets);

/// From token ids to the hidden states behind the last layer. Each step takes its variables from the current
/// scope.
class TransformerStack {
 public:
  TransformerStack(const StackOptions& options, const TokenModelOptions& model, LayerParser& parser);

  /// ids: int32 [batch, length] -> [batch, length, model]
  Tensor embed(Context& context, const TokenEmbedding& embedding, const Tensor& ids) const;
  /// position: int32 [batch, length]; null: the index along `length`.
  Tensor add_positions(Context& context, const Tensor& x, const Tensor& position,
                       const Dimension& length) const;
  /// Tokens for which the table of learned positions has rows; nothing: there is none.
  std::optional<int64_t> longest_row() const;
  /// Rows of the table of positions, learned or not, of `length` tokens; nothing: there is none.
  std::optional<int64_t> positions(int64_t length) const;
  /// The layers, with zeros where sequence.segment says padding; sets sequence.mask.
  Tensor layers(Context& context, Sequence& sequence, const Tensor& x) const;

 private:
  LayerStack layers_;
  Positions positions_;
  int64_t max_length_, first_position_;
  double token_dropout_;
};

/// The ids that a decoder reads while it predicts `targets`: those one place to the left, 0 first and at the
/// start of each segment; -t is read as t. `segment` may be null.
Tensor autoregressive_inputs(const Tensor& targets, const Tensor& segment, const Dimension& length);

/// Logits by the transposed embedding, in the type of activations; where softmax weights are not shared, by
/// logits/kernel in the current scope; with `logit_bias` plus logits/bias. Without `predict_padding` id 0 is out of
/// reach.
Tensor token_logits(Context& context, const TokenModelOptions& options, const TokenEmbedding& embedding,
                    const Tensor& hidden, const Dimension& vocabulary);

struct LanguageModelOptions : ModelOptions, TokenModelOptions, StackOptions {
  static constexpr std::string_view type_name = "lm";
  static constexpr std::array common_names = {
      CommonName{"transformer", "`lm`, `delimited_lm`, `aligned` or `bitransformer`"},
      CommonName{"unitransformer", "`lm`"},
      CommonName{"gpt", "`lm`"},
      CommonName{"gpt2", "`lm`"},
      CommonName{"decoder", "`lm`"},
      CommonName{"decoder_only", "`lm`"},
      CommonName{"language_model", "`lm`"},
      CommonName{"causal_lm", "`lm`"}};
  std::string name = "transformer";
  bool input_full_attention = false;
  bool loss_on_targets_only = false;
  bool delimited = false;  ///< not a key: rows hold inputs, end of sequence, targets, end of sequence, ...

  std::unique_ptr<Model> make(Diagnostics& diagnostics) const override;
};
void describe(config::Visitor& visit, LanguageModelOptions& options);

struct AlignedOptions final : ModelOptions, TokenModelOptions, StackOptions {
  static constexpr std::string_view type_name = "aligned";
  static constexpr std::array common_names = {
      CommonName{"bert", "`aligned`"}, CommonName{"encoder", "`aligned`"},
      CommonName{"encoder_only", "`aligned`"}, CommonName{"masked_lm", "`aligned`"},
      CommonName{"tagger", "`aligned`"}};
  std::string name = "transformer";

  std::unique_ptr<Model> make(Diagnostics& diagnostics) const override;
};
void describe(config::Visitor& visit, AlignedOptions& options);

struct DelimitedLanguageModelOptions final : LanguageModelOptions {
  static constexpr std::string_view type_name = "delimited_lm";
  static constexpr std::array common_names = {
      CommonName{"prefix_lm", "`delimited_lm`, or `lm` with `input_full_attention`"}};
  DelimitedLanguageModelOptions() { delimited = true; }
};

/// int32 [batch]: so many tokens of a row are its prompt, as in TextDecoder::Prefill. A feature of no data,
/// for rows that do not tell by their ends of sequence.
inline constexpr std::string_view kPromptFeature = "prompt";

/// Features: targets, and where the data have them targets_segmentation, targets_position.
class LanguageModel final : public Model, public TextDecoder {
 public:
  LanguageModel(const LanguageModelOptions& options, Diagnostics& diagnostics);
  std::vector<std::string> features() const override { return {"targets"}; }
  std::vector<std::string> optional_features() const override;
  std::optional<int64_t> positions(int64_t length) const override { return stack_.positions(length); }
  std::string_view inputs_part_setting() const override;
  std::vector<std::string> metrics() const override { return token_metrics(); }
  ModelOutput build(Context& context, const Features& features) const override;

  const TextDecoder* decoder() const override { return this; }

  bool has_encoder() const override { return false; }
  bool ends_prompts() const override { return options_.delimited; }
  bool predicts_padding() const override { return options_.predict_padding; }
  std::optional<int64_t> longest_text() const override { return stack_.longest_row(); }
  Tensor prefill(Context& context, const DecodeSizes& sizes, const Prefill& input) const override;
  Tensor step(Context& context, const DecodeSizes& sizes, const Step& input) const override;

 private:
  /// Hidden states of `ids` at `position` (null: the index), in the scope of the model.
  Tensor hidden(Context& context, const TokenEmbedding& embedding, const Tensor& ids, const Tensor& position,
                Sequence& sequence) const;

  LanguageModelOptions options_;
  TransformerStack stack_;
};

/// Features: inputs and targets of the same length.
class AlignedModel final : public Model {
 public:
  AlignedModel(const AlignedOptions& options, Diagnostics& diagnostics);
  std::vector<std::string> features() const override { return {"inputs", "targets"}; }
  std::vector<std::string> optional_features() const override;
  std::optional<int64_t> positions(int64_t length) const override { return stack_.positions(length); }
  std::string_view one_embedding() const override {
    return options_.shared_embedding_and_softmax ? "shared_embedding_and_softmax" : "";
  }
  bool is_aligned() const override { return true; }
  std::vector<std::string> metrics() const override { return token_metrics(); }
  ModelOutput build(Context& context, const Features& features) const override;

 private:
  AlignedOptions options_;
  TransformerStack stack_;
};

/// The tensor of a feature. Throws Error with the nearest name when the data do not have it.
const Tensor& required_feature(const Features& features, const std::string& name);
/// The same; null where the data do not have it.
Tensor optional_feature(const Features& features, const std::string& name);

}  // namespace mtf
