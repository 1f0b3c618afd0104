#include "trainer/programs/convert/bert_config.h"

#include <fmt/format.h>

#include <algorithm>

namespace mtf {
namespace {

constexpr const char* kRegressionProblem = "regression";

/// Throws Error for heads that no model here has, and that their tensors alone do not tell from others.
void check_task(const HuggingFaceJson& json) {
  const nlohmann::json architectures =
      json.has("architectures") ? json.at("architectures") : nlohmann::json::array();
  const auto is_one = [&](const char* name) {
    return std::ranges::find(architectures, name) != architectures.end();
  };
  if (is_one("BertForMultipleChoice"))
    json.fail("a BertForMultipleChoice cannot be converted: no model here chooses among several texts",
              "a BertForSequenceClassification");
  if (is_one("BertForNextSentencePrediction"))
    json.fail("a BertForNextSentencePrediction cannot be converted: a model here predicts hidden tokens, too",
              "a BertForPreTraining, or a BertForSequenceClassification of pairs");
  const bool classifies = architectures.empty() || is_one("BertForSequenceClassification");
  if (const std::string problem = json.text("problem_type", "");
      classifies && problem == "multi_label_classification")
    json.fail(fmt::format("`problem_type` is {}, which cannot be converted: a classifier here gives each "
                          "text one class",
                          problem),
              "single_label_classification or regression");
}

std::string_view architecture_of(const BertConfig& bert) {
  if (bert.without_head) return "BertModel";
  switch (bert.head) {
    case BertHead::kMaskedLm:
      return "BertForMaskedLM";
    case BertHead::kPretraining:
      return "BertForPreTraining";
    case BertHead::kClassifier:
    case BertHead::kRegression:
      return "BertForSequenceClassification";
    case BertHead::kTagger:
      return "BertForTokenClassification";
    case BertHead::kSpans:
      break;
  }
  return "BertForQuestionAnswering";
}

}  // namespace

bool has_classifier(BertHead head) {
  return head == BertHead::kClassifier || head == BertHead::kRegression || head == BertHead::kTagger;
}

BertConfig parse_bert_config(const std::string& text, const std::string& path) {
  const HuggingFaceJson json(text, path);
  if (const std::string type = json.text("model_type", "bert"); type != "bert")
    json.fail(fmt::format("`model_type` is {}, which cannot be converted", type), "bert");
  json.require("position_embedding_type", "absolute", "positions have a table");
  json.require("is_decoder", false, "a BERT is an encoder");
  json.require("tie_word_embeddings", true, "logits come from the embedding");
  json.require("pad_token_id", 0, "padding is id 0");
  check_task(json);
  BertConfig bert;
  bert.vocab_size = json.size("vocab_size", bert.vocab_size);
  bert.hidden = json.size("hidden_size", bert.hidden);
  bert.num_layers = json.size("num_hidden_layers", bert.num_layers);
  bert.num_heads = json.size("num_attention_heads", bert.num_heads);
  bert.intermediate = json.size("intermediate_size", bert.intermediate);
  bert.max_positions = json.size("max_position_embeddings", bert.max_positions);
  bert.token_types = json.size("type_vocab_size", bert.token_types);
  bert.dropout = json.number("hidden_dropout_prob", bert.dropout);
  bert.attention_dropout = json.number("attention_probs_dropout_prob", bert.attention_dropout);
  if (json.has("classifier_dropout")) bert.classifier_dropout = json.number("classifier_dropout", 0);
  bert.epsilon = json.number("layer_norm_eps", bert.epsilon);
  bert.initializer_range = json.number("initializer_range", bert.initializer_range);
  bert.activation = parse_activation(json, "hidden_act", "gelu");
  if (json.text("problem_type", "") == kRegressionProblem) bert.head = BertHead::kRegression;
  bert.label_names = parse_label_names(json);
  if (bert.hidden % bert.num_heads != 0)
    json.fail(fmt::format("`hidden_size` {} cannot be divided among {} heads", bert.hidden, bert.num_heads));
  return bert;
}

std::string bert_json(const BertConfig& bert) {
  nlohmann::ordered_json json = {
      {"architectures", {architecture_of(bert)}},
      {"model_type", "bert"},
      {"vocab_size", bert.vocab_size},
      {"hidden_size", bert.hidden},
      {"num_hidden_layers", bert.num_layers},
      {"num_attention_heads", bert.num_heads},
      {"intermediate_size", bert.intermediate},
      {"hidden_act", activation_name(bert.activation)},
      {"hidden_dropout_prob", bert.dropout},
      {"attention_probs_dropout_prob", bert.attention_dropout},
      {"max_position_embeddings", bert.max_positions},
      {"type_vocab_size", bert.token_types},
      {"initializer_range", bert.initializer_range},
      {"layer_norm_eps", bert.epsilon},
      {"pad_token_id", 0},
      {"position_embedding_type", "absolute"},
      {"torch_dtype", "float32"},
  };
  if (bert.head == BertHead::kRegression) json["problem_type"] = kRegressionProblem;
  if (bert.classifier_dropout) json["classifier_dropout"] = *bert.classifier_dropout;
  if (has_classifier(bert.head)) add_label_names(bert.label_names, bert.labels, json);
  return json.dump(2) + "\n";
}

}  // namespace mtf
