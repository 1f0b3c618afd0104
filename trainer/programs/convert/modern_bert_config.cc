// Reads and writes what config.json says of a ModernBERT.
#include <fmt/format.h>

#include <optional>

#include "trainer/programs/convert/layer_types.h"
#include "trainer/programs/convert/modern_bert.h"

namespace mtf {
namespace {

constexpr const char *kEvery = "global_attn_every_n_layers", *kWindow = "local_attention";
constexpr const char *kFull = "full_attention", *kSliding = "sliding_attention";

/// The base of the angles of layers of one type.
double parse_base(const HuggingFaceJson& json, const char* type, const char* key, double otherwise) {
  const HuggingFaceJson rope = json.object("rope_parameters").object(type);
  rope.require("rope_type", "default", "rotary positions are not scaled");
  return rope.positive("rope_theta", json.positive(key, otherwise));
}

/// Sets which layers have local attention.
void parse_layers(const HuggingFaceJson& json, BertConfig& bert) {
  std::vector<bool>& local = bert.modern.local;
  if (json.has("layer_types")) {
    local = parse_layer_types(json, bert.num_layers);
  } else {
    const int64_t every = json.size(kEvery, 3);
    local.resize(static_cast<size_t>(bert.num_layers));
    for (int64_t layer = 0; layer < bert.num_layers; ++layer)
      local[static_cast<size_t>(layer)] = layer % every != 0;
  }
  reduce_to_pattern(local);
  bert.modern.window = json.size(kWindow, 2 * bert.modern.window) / 2;
  if (bert.modern.window == 0) json.fail("`local_attention` is 1", "a window of several tokens, such as 128");
}

/// Says what the classes of `architectures` put on the encoder.
BertHead parse_head(const HuggingFaceJson& json) {
  if (!class_of_task(json, "ForSequenceClassification").empty()) return BertHead::kClassifier;
  if (!class_of_task(json, "ForTokenClassification").empty()) return BertHead::kTagger;
  if (!class_of_task(json, "ForQuestionAnswering").empty()) return BertHead::kSpans;
  return BertHead::kMaskedLm;
}

/// Every how many layers attention is not local, from the first one on; nothing: at other distances.
std::optional<int64_t> global_every(const BertConfig& bert) {
  const ModernBertOptions& modern = bert.modern;
  const auto is_local = [&](int64_t layer) {
    return modern.local[static_cast<size_t>(layer % modern.pattern())];
  };
  int64_t every = 1;
  while (every < bert.num_layers && is_local(every)) ++every;
  for (int64_t layer = 0; layer < bert.num_layers; ++layer) {
    if (is_local(layer) != (layer % every != 0)) return std::nullopt;
  }
  return every;
}

}  // namespace

void set_modern_bert_defaults(BertConfig& bert) {
  bert.head = BertHead::kMaskedLm;
  bert.vocab_size = 50368;
  bert.num_layers = 22;
  bert.intermediate = 1152;
  bert.max_positions = 8192;
  bert.dropout = bert.attention_dropout = 0;
  bert.begin = 50281;
  bert.end = 50282;
  bert.modern.pools_mean = true;  // as published models do; only a head of texts says so
}

void parse_modern_bert(const HuggingFaceJson& json, BertConfig& bert) {
  ModernBertOptions& modern = bert.modern;
  for (const char* key : {"norm_bias", "attention_bias", "mlp_bias", "classifier_bias"})
    json.require(key, false, "layers have no biases but the last one");
  json.require("decoder_bias", true, "logits have a bias");
  json.require("rope_scaling", nullptr, "rotary positions are not scaled");
  bert.head = parse_head(json);
  bert.epsilon = json.positive("norm_eps", 1e-5);
  bert.begin = json.size("cls_token_id", json.size("bos_token_id", bert.begin, 0), 0);
  bert.end = json.size("sep_token_id", json.size("eos_token_id", bert.end, 0), 0);
  modern.padding = json.size("pad_token_id", modern.padding, 0);
  parse_layers(json, bert);
  modern.rotary_base = parse_base(json, kFull, "global_rope_theta", modern.rotary_base);
  modern.local_rotary_base = parse_base(json, kSliding, "local_rope_theta", modern.local_rotary_base);
  modern.embedding_dropout = json.number("embedding_dropout", 0);
  bert.classifier_dropout = json.number("classifier_dropout", 0);
  modern.head_activation = parse_activation(json, "classifier_activation", "gelu");
  const std::string pooling = json.text("classifier_pooling", "cls");
  if (pooling != "cls" && pooling != "mean")
    json.fail(fmt::format("`classifier_pooling` is {}, which cannot be converted", pooling), "cls or mean");
  modern.pools_mean = pooling == "mean";
}

void add_modern_bert_keys(const BertConfig& bert, nlohmann::ordered_json& json) {
  const ModernBertOptions& modern = bert.modern;
  json["cls_token_id"] = bert.begin;
  json["sep_token_id"] = bert.end;
  json["norm_eps"] = bert.epsilon;
  for (const char* key : {"norm_bias", "attention_bias", "mlp_bias", "classifier_bias"}) json[key] = false;
  json["decoder_bias"] = true;
  json["initializer_cutoff_factor"] = 2.0;
  json["embedding_dropout"] = modern.embedding_dropout;
  json["classifier_dropout"] = bert.classifier_dropout.value_or(0);
  json["classifier_activation"] = activation_name(modern.head_activation);
  json["classifier_pooling"] = modern.pools_mean ? "mean" : "cls";
  json[kWindow] = 2 * modern.window;
  json["global_rope_theta"] = modern.rotary_base;
  json["local_rope_theta"] = modern.local_rotary_base;
  json["rope_parameters"] = {
      {kFull, {{"rope_theta", modern.rotary_base}, {"rope_type", "default"}}},
      {kSliding, {{"rope_theta", modern.local_rotary_base}, {"rope_type", "default"}}}};
  // Versions before 5 of transformers know this key alone.
  if (const std::optional<int64_t> every = global_every(bert)) json[kEvery] = *every;
  for (int64_t layer = 0; layer < bert.num_layers; ++layer)
    json["layer_types"].push_back(modern.local[static_cast<size_t>(layer % modern.pattern())] ? kSliding
                                                                                              : kFull);
}

}  // namespace mtf
