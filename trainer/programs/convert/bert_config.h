// The hyperparameters of a BERT and of encoders like it (RoBERTa, XLM-RoBERTa, DistilBERT, ModernBERT), read from and
// written to Hugging Face's config.json and the configuration of this program.
// Devlin et al., BERT, 2019. Liu et al., RoBERTa, 2019. Sanh et al., DistilBERT, 2019. Conneau et al., 2020. Warner et al.,
// ModernBERT, 2024.
//
//   const BertConfig bert = parse_bert_config(text, "bert-base-uncased/config.json");
//   const std::string yaml = bert_yaml(bert, {.vocabulary = "{type: wordpiece, ...}", ...});
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "layers/activation.h"
#include "trainer/config/config.h"
#include "trainer/programs/convert/hugging_face.h"

namespace mtf {

/// A RoBERTa reads positions from row `first_position` of their table on, has one type for both texts and a byte pair
/// vocabulary; an XLM-RoBERTa differs from it in its vocabulary alone, a unigram model. A DistilBERT has no types of tokens. A
/// ModernBERT has layers of its own (modern_bert.h).
enum class BertFamily { kBert, kRoberta, kXlmRoberta, kDistilBert, kModernBert };

/// True for both kinds of RoBERTa.
bool is_roberta(BertFamily family);
/// True for the families whose vocabulary is tokenizer.json, in which padding and what ends a row have any ids.
bool has_tokenizer(BertFamily family);
/// "BERT", "RoBERTa", ...
std::string_view name_of(BertFamily family);
/// The `model_type` of all families; several may be of one.
std::vector<std::string_view> bert_types();

/// What stands on the encoder: logits of hidden tokens, without and with the classifier of pairs of sentences; classes of a
/// text; numbers for a text; tags of its tokens; the bounds of an answer.
enum class BertHead { kMaskedLm, kPretraining, kClassifier, kRegression, kTagger, kSpans };

/// True for the heads whose last layer is `classifier`.
bool has_classifier(BertHead head);

/// True for the heads of whole texts, which see one vector for each.
bool is_of_texts(BertHead head);

/// What a ModernBERT alone has. The defaults are those of keys that its config.json omits.
struct ModernBertOptions {
  /// Whether attention is local, for the layers of a pattern that repeats up to num_layers.
  std::vector<bool> local = {false};
  int64_t window = 64;  ///< tokens on either side that local attention sees
  double rotary_base = 160000, local_rotary_base = 10000;
  double embedding_dropout = 0;
  bool pools_mean = false;  ///< texts have the mean of their tokens' vectors, not that of the first one
  Activation head_activation = Activation::kGeluErf;
  int64_t padding = 50283;  ///< id in the file

  int64_t pattern() const { return static_cast<int64_t>(local.size()); }
  friend bool operator==(const ModernBertOptions&, const ModernBertOptions&) = default;
};

/// The hyperparameters. The defaults are those of keys that the config.json of a BERT omits.
struct BertConfig {
  BertFamily family = BertFamily::kBert;
  int64_t vocab_size = 30522;
  int64_t hidden = 768;
  int64_t num_layers = 12;
  int64_t num_heads = 12;
  int64_t intermediate = 3072;
  int64_t max_positions = 512;  ///< rows of the table, also those before `first_position`
  /// The row that the first token reads: that behind the id of padding in a RoBERTa.
  int64_t first_position = 0;
  int64_t token_types = 2;
  double dropout = 0.1;
  double attention_dropout = 0.1;
  std::optional<double> classifier_dropout;  ///< before `classifier`; nothing: `dropout`
  double answer_dropout = 0;                 ///< before `qa_outputs` of a DistilBERT
  double epsilon = 1e-12;
  double initializer_range = 0.02;
  Activation activation = Activation::kGeluErf;
  BertHead head = BertHead::kPretraining;  ///< from the weights, but for kRegression of config.json
  bool without_head = false;               ///< an encoder alone; only the weights determine it
  int64_t labels = 2;                      ///< rows of `classifier`; only the weights determine them
  std::vector<std::string> label_names;    ///< in their order; empty: LABEL_0, LABEL_1, ...
  /// Ids of tokenizer.json, which begin and end a row.
  int64_t begin = 0, end = 2;
  /// Tokens of tokenizer.json that begin a row and hide others; empty: the usual ones of the family, <s> and <mask> or
  /// [CLS] and [MASK].
  std::string start_token, mask_token;
  ModernBertOptions modern;

  /// The id of padding in the file.
  int64_t padding() const;

  friend bool operator==(const BertConfig&, const BertConfig&) = default;
};

/// Returns the class of `architectures` whose name ends with a task; empty: there is none.
std::string class_of_task(const HuggingFaceJson& json, std::string_view task);
/// Parses config.json; `path` names the text in messages. Throws Error (kCheckpoint) for a damaged text, for other models, and
/// for a BERT that this program cannot build.
BertConfig parse_bert_config(const std::string& json, const std::string& path);
std::string bert_json(const BertConfig& bert);

/// Returns the BERT that a configuration of this program describes, without the sizes that only the weights determine:
/// vocab_size, hidden, max_positions, token_types, labels and their names, and without what its vocabulary determines: begin,
/// end, and which RoBERTa it is. Throws Error (kConfig), which says what differs from a BERT.
BertConfig bert_of(const Config& config);
/// Returns the text of config.yaml.
std::string bert_yaml(const BertConfig& bert, const ModelSurroundings& around);

}  // namespace mtf
