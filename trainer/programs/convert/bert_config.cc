#include "trainer/programs/convert/bert_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace mtf {
namespace {

/// The names of `hidden_act`. If several have the same activation, the first one is written.
struct HiddenActivation {
  std::string_view name;
  Activation activation;
};
constexpr std::array<HiddenActivation, 7> kHiddenActivations = {{{"gelu", Activation::kGeluErf},
                                                                 {"gelu_new", Activation::kGelu},
                                                                 {"gelu_pytorch_tanh", Activation::kGelu},
                                                                 {"relu", Activation::kRelu},
                                                                 {"silu", Activation::kSwish},
                                                                 {"swish", Activation::kSwish},
                                                                 {"tanh", Activation::kTanh}}};

Activation parse_hidden_activation(const HuggingFaceJson& json) {
  const std::string given = json.text("hidden_act", "gelu");
  const auto found = std::ranges::find(kHiddenActivations, given, &HiddenActivation::name);
  if (found != kHiddenActivations.end()) return found->activation;
  std::vector<std::string_view> known;
  for (const HiddenActivation& entry : kHiddenActivations) known.push_back(entry.name);
  json.fail(fmt::format("`hidden_act` is {}, which cannot be converted", given),
            fmt::format("one of {}", fmt::join(known, ", ")));
}

std::string_view architecture_of(BertHead head) {
  switch (head) {
    case BertHead::kMaskedLm:
      return "BertForMaskedLM";
    case BertHead::kPretraining:
      return "BertForPreTraining";
    case BertHead::kClassifier:
      return "BertForSequenceClassification";
    case BertHead::kTagger:
      return "BertForTokenClassification";
    case BertHead::kSpans:
      break;
  }
  return "BertForQuestionAnswering";
}

}  // namespace

bool has_bert_name(Activation activation) {
  return std::ranges::find(kHiddenActivations, activation, &HiddenActivation::activation) !=
         kHiddenActivations.end();
}

BertConfig parse_bert_config(const std::string& text, const std::string& path) {
  const HuggingFaceJson json(text, path);
  if (const std::string type = json.text("model_type", "bert"); type != "bert")
    json.fail(fmt::format("`model_type` is {}, which cannot be converted", type), "bert");
  json.require("position_embedding_type", "absolute", "positions have a table");
  json.require("is_decoder", false, "a BERT is an encoder");
  json.require("tie_word_embeddings", true, "logits come from the embedding");
  json.require("pad_token_id", 0, "padding is id 0");
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
  bert.epsilon = json.number("layer_norm_eps", bert.epsilon);
  bert.initializer_range = json.number("initializer_range", bert.initializer_range);
  bert.activation = parse_hidden_activation(json);
  if (bert.hidden % bert.num_heads != 0)
    json.fail(fmt::format("`hidden_size` {} cannot be divided among {} heads", bert.hidden, bert.num_heads));
  return bert;
}

std::string bert_json(const BertConfig& bert) {
  const auto name = std::ranges::find(kHiddenActivations, bert.activation, &HiddenActivation::activation);
  nlohmann::ordered_json json = {
      {"architectures", {architecture_of(bert.head)}},
      {"model_type", "bert"},
      {"vocab_size", bert.vocab_size},
      {"hidden_size", bert.hidden},
      {"num_hidden_layers", bert.num_layers},
      {"num_attention_heads", bert.num_heads},
      {"intermediate_size", bert.intermediate},
      {"hidden_act", name->name},
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
  if (bert.head == BertHead::kClassifier || bert.head == BertHead::kTagger) {
    nlohmann::ordered_json names, numbers;
    for (int64_t i = 0; i < bert.labels; ++i) {
      const std::string label = fmt::format("LABEL_{}", i);
      names[fmt::to_string(i)] = label;
      numbers[label] = i;
    }
    json["id2label"] = names;
    json["label2id"] = numbers;
  }
  return json.dump(2) + "\n";
}

}  // namespace mtf
