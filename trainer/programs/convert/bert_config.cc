#include "trainer/programs/convert/bert_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "engine/base/check.h"
#include "engine/base/with_article.h"
#include "trainer/programs/convert/modern_bert.h"

namespace mtf {
namespace {

constexpr const char* kRegressionProblem = "regression";
/// The `epsilon` of a DistilBERT, whose config.json has no key for it.
constexpr double kDistilBertEpsilon = 1e-12;

/// What config.json calls the encoders of a family, which is exported as the first one. A CamemBERT differs from an
/// XLM-RoBERTa in its name alone.
struct FamilyNames {
  BertFamily family;
  std::string_view name;         ///< in messages
  std::string_view model_type;   ///< in config.json
  std::string_view class_begin;  ///< "Bert" of BertForMaskedLM
};
constexpr std::array<FamilyNames, 6> kFamilies = {
    {{BertFamily::kBert, "BERT", "bert", "Bert"},
     {BertFamily::kRoberta, "RoBERTa", "roberta", "Roberta"},
     {BertFamily::kXlmRoberta, "XLM-RoBERTa", "xlm-roberta", "XLMRoberta"},
     {BertFamily::kXlmRoberta, "CamemBERT", "camembert", "Camembert"},
     {BertFamily::kDistilBert, "DistilBERT", "distilbert", "DistilBert"},
     {BertFamily::kModernBert, "ModernBERT", "modernbert", "ModernBert"}}};

const FamilyNames& names_of(BertFamily family) {
  const auto* const found = std::ranges::find(kFamilies, family, &FamilyNames::family);
  MTF_CHECK(found != kFamilies.end(), "a family without names");
  return *found;
}

/// The keys of config.json whose names are others in some families.
struct SizeKeys {
  const char *hidden, *num_layers, *num_heads, *intermediate, *dropout, *attention_dropout, *activation;
};
const SizeKeys& keys_of(BertFamily family) {
  static constexpr SizeKeys kUsual = {"hidden_size",         "num_hidden_layers",
                                      "num_attention_heads", "intermediate_size",
                                      "hidden_dropout_prob", "attention_probs_dropout_prob",
                                      "hidden_act"};
  static constexpr SizeKeys kDistilBert = {"dim",     "n_layers",          "n_heads",   "hidden_dim",
                                           "dropout", "attention_dropout", "activation"};
  static constexpr SizeKeys kModernBert = {"hidden_size",       "num_hidden_layers", "num_attention_heads",
                                           "intermediate_size", "mlp_dropout",       "attention_dropout",
                                           "hidden_activation"};
  if (family == BertFamily::kModernBert) return kModernBert;
  return family == BertFamily::kDistilBert ? kDistilBert : kUsual;
}

BertFamily parse_family(const HuggingFaceJson& json) {
  const std::string type = json.text("model_type", "bert");
  const auto* const found = std::ranges::find(kFamilies, type, &FamilyNames::model_type);
  if (found == kFamilies.end())
    json.fail(fmt::format("`model_type` is {}, which cannot be converted", type),
              fmt::format("one of {}", fmt::join(bert_types(), ", ")));
  return found->family;
}

/// Throws Error for heads that no model here has, and that their tensors alone do not tell from others.
void check_task(const HuggingFaceJson& json) {
  const auto class_for = [&](std::string_view task) { return class_of_task(json, task); };
  if (const std::string given = class_for("ForMultipleChoice"); !given.empty())
    json.fail(
        fmt::format("{} cannot be converted: no model here chooses among several texts", with_article(given)),
        "one with ForSequenceClassification in its name");
  if (const std::string given = class_for("ForNextSentencePrediction"); !given.empty())
    json.fail(
        fmt::format("{} cannot be converted: a model here predicts hidden tokens, too", with_article(given)),
        "a BertForPreTraining, or a BertForSequenceClassification of pairs");
  const bool names_none = !json.has("architectures") || json.at("architectures").empty();
  const bool classifies = names_none || !class_for("ForSequenceClassification").empty();
  if (const std::string problem = json.text("problem_type", "");
      classifies && problem == "multi_label_classification")
    json.fail(fmt::format("`problem_type` is {}, which cannot be converted: a classifier here gives each "
                          "text one class",
                          problem),
              "single_label_classification or regression");
}

void parse_roberta(const HuggingFaceJson& json, BertConfig& roberta) {
  if (roberta.family == BertFamily::kRoberta) roberta.vocab_size = 50265;
  roberta.first_position = json.size("pad_token_id", 1, 0) + 1;
  roberta.begin = json.size("bos_token_id", roberta.begin, 0);
  roberta.end = json.size("eos_token_id", roberta.end, 0);
  roberta.head = BertHead::kMaskedLm;
}

std::string_view task_of(const BertConfig& bert) {
  if (bert.without_head) return "Model";
  switch (bert.head) {
    case BertHead::kMaskedLm:
      return "ForMaskedLM";
    case BertHead::kPretraining:
      return "ForPreTraining";
    case BertHead::kClassifier:
    case BertHead::kRegression:
      return "ForSequenceClassification";
    case BertHead::kTagger:
      return "ForTokenClassification";
    case BertHead::kSpans:
      break;
  }
  return "ForQuestionAnswering";
}

/// Adds the keys that a DistilBERT does not have.
void add_bert_keys(const BertConfig& bert, nlohmann::ordered_json& json) {
  json["type_vocab_size"] = bert.token_types;
  json["layer_norm_eps"] = bert.epsilon;
  json["position_embedding_type"] = "absolute";
  if (bert.classifier_dropout) json["classifier_dropout"] = *bert.classifier_dropout;
}

void add_distilbert_keys(const BertConfig& bert, nlohmann::ordered_json& json) {
  if (bert.epsilon != kDistilBertEpsilon)
    throw Error(ErrorKind::kCheckpoint,
                fmt::format("norms with `epsilon` {} cannot be those of a DistilBERT", bert.epsilon),
                fmt::format("`layer_defaults: {{layer_norm: {{epsilon: {}}}}}`", kDistilBertEpsilon));
  json["sinusoidal_pos_embds"] = false;
  if (is_of_texts(bert.head)) json["seq_classif_dropout"] = bert.classifier_dropout.value_or(bert.dropout);
  if (bert.head == BertHead::kSpans) json["qa_dropout"] = bert.answer_dropout;
}

}  // namespace

bool is_roberta(BertFamily family) {
  return family == BertFamily::kRoberta || family == BertFamily::kXlmRoberta;
}

bool has_tokenizer(BertFamily family) { return is_roberta(family) || family == BertFamily::kModernBert; }

std::string_view name_of(BertFamily family) { return names_of(family).name; }

std::vector<std::string_view> bert_types() {
  std::vector<std::string_view> types;
  for (const FamilyNames& names : kFamilies) types.push_back(names.model_type);
  return types;
}

bool has_classifier(BertHead head) {
  return head == BertHead::kClassifier || head == BertHead::kRegression || head == BertHead::kTagger;
}

bool is_of_texts(BertHead head) { return head == BertHead::kClassifier || head == BertHead::kRegression; }

int64_t BertConfig::padding() const {
  if (family == BertFamily::kModernBert) return modern.padding;
  return is_roberta(family) ? first_position - 1 : 0;
}

std::string class_of_task(const HuggingFaceJson& json, std::string_view task) {
  if (!json.has("architectures")) return {};
  for (const nlohmann::json& name : json.at("architectures")) {
    if (name.is_string() && name.get<std::string>().ends_with(task)) return name.get<std::string>();
  }
  return {};
}

BertConfig parse_bert_config(const std::string& text, const std::string& path) {
  const HuggingFaceJson json(text, path);
  BertConfig bert;
  bert.family = parse_family(json);
  const bool is_distilbert = bert.family == BertFamily::kDistilBert,
             is_modern = bert.family == BertFamily::kModernBert;
  json.require("position_embedding_type", "absolute", "positions have a table");
  json.require("is_decoder", false, "a model of this kind is an encoder");
  json.require("tie_word_embeddings", true, "logits come from the embedding");
  check_task(json);
  if (is_roberta(bert.family)) {
    parse_roberta(json, bert);
  } else if (is_modern) {
    set_modern_bert_defaults(bert);
  } else {
    json.require("pad_token_id", 0, "padding is id 0");
  }
  if (is_distilbert) {
    bert.head = BertHead::kMaskedLm;
    bert.num_layers = 6;
    bert.epsilon = kDistilBertEpsilon;
    bert.classifier_dropout = json.number("seq_classif_dropout", 0.2);
    bert.answer_dropout = json.number("qa_dropout", 0.1);
  } else if (!is_modern) {
    bert.token_types = json.size("type_vocab_size", bert.token_types);
    bert.epsilon = json.number("layer_norm_eps", bert.epsilon);
    if (json.has("classifier_dropout")) bert.classifier_dropout = json.number("classifier_dropout", 0);
  }
  const SizeKeys& keys = keys_of(bert.family);
  bert.vocab_size = json.size("vocab_size", bert.vocab_size);
  bert.hidden = json.size(keys.hidden, bert.hidden);
  bert.num_layers = json.size(keys.num_layers, bert.num_layers);
  bert.num_heads = json.size(keys.num_heads, bert.num_heads);
  bert.intermediate = json.size(keys.intermediate, bert.intermediate);
  bert.max_positions = json.size("max_position_embeddings", bert.max_positions);
  bert.dropout = json.number(keys.dropout, bert.dropout);
  bert.attention_dropout = json.number(keys.attention_dropout, bert.attention_dropout);
  bert.initializer_range = json.number("initializer_range", bert.initializer_range);
  bert.activation = parse_activation(json, keys.activation, "gelu");
  if (is_modern) parse_modern_bert(json, bert);
  const bool may_be_of_texts = !is_modern || is_of_texts(bert.head);
  if (may_be_of_texts && json.text("problem_type", "") == kRegressionProblem)
    bert.head = BertHead::kRegression;
  bert.label_names = parse_label_names(json);
  if (bert.hidden % bert.num_heads != 0)
    json.fail(
        fmt::format("`{}` {} cannot be divided among {} heads", keys.hidden, bert.hidden, bert.num_heads));
  if (bert.max_positions <= bert.first_position)
    json.fail(fmt::format("`max_position_embeddings` is {}, and the first position is row {}",
                          bert.max_positions, bert.first_position));
  for (const auto& [key, id] : {std::pair{"bos_token_id", bert.begin},
                                {"eos_token_id", bert.end},
                                {"pad_token_id", bert.padding()}}) {
    if (has_tokenizer(bert.family) && id >= bert.vocab_size)
      json.fail(fmt::format("`{}` is {}, and `vocab_size` {}", key, id, bert.vocab_size));
  }
  if (has_tokenizer(bert.family) && bert.end == bert.padding())
    json.fail(fmt::format("`eos_token_id` is {}, like `pad_token_id`", bert.end));
  return bert;
}

std::string bert_json(const BertConfig& bert) {
  const FamilyNames& names = names_of(bert.family);
  const SizeKeys& keys = keys_of(bert.family);
  nlohmann::ordered_json json = {
      {"architectures", {fmt::format("{}{}", names.class_begin, task_of(bert))}},
      {"model_type", names.model_type},
      {"vocab_size", bert.vocab_size},
      {keys.hidden, bert.hidden},
      {keys.num_layers, bert.num_layers},
      {keys.num_heads, bert.num_heads},
      {keys.intermediate, bert.intermediate},
      {keys.activation, activation_name(bert.activation)},
      {keys.dropout, bert.dropout},
      {keys.attention_dropout, bert.attention_dropout},
      {"max_position_embeddings", bert.max_positions},
      {"initializer_range", bert.initializer_range},
      {"pad_token_id", bert.padding()},
      {"tie_word_embeddings", true},
      {"torch_dtype", "float32"},
  };
  if (has_tokenizer(bert.family)) {
    json["bos_token_id"] = bert.begin;
    json["eos_token_id"] = bert.end;
  }
  if (bert.family == BertFamily::kDistilBert) {
    add_distilbert_keys(bert, json);
  } else if (bert.family == BertFamily::kModernBert) {
    add_modern_bert_keys(bert, json);
  } else {
    add_bert_keys(bert, json);
  }
  if (bert.head == BertHead::kRegression) json["problem_type"] = kRegressionProblem;
  if (has_classifier(bert.head)) add_label_names(bert.label_names, bert.labels, json);
  return json.dump(2) + "\n";
}

}  // namespace mtf
