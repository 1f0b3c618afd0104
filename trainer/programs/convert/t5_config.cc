#include "trainer/programs/convert/t5_config.h"

#include <fmt/format.h>

#include <algorithm>

#include "data/vocabulary/vocabulary.h"
#include "trainer/programs/convert/hugging_face.h"

namespace mtf {
namespace {

/// The relative attention distance of this program from which all positions share a bucket.
constexpr int64_t kMaxDistance = 128;

/// The names of `feed_forward_proj`. If several have the same activation, the first one is written.
struct FeedForwardName {
  std::string_view name;
  std::vector<Activation> activation;
};
const std::vector<FeedForwardName>& feed_forward_names() {
  using enum Activation;
  static const std::vector<FeedForwardName> names = {
      {"relu", {kRelu}},
      {"gelu_new", {kGelu}},
      {"silu", {kSwish}},
      {"swish", {kSwish}},
      {"gated-gelu", {kGelu, kLinear}},
      {"gated-gelu_new", {kGelu, kLinear}},
      {"gated-relu", {kRelu, kLinear}},
      {"gated-silu", {kSwish, kLinear}},
      {"gated-swish", {kSwish, kLinear}},
  };
  return names;
}

std::vector<Activation> parse_feed_forward(const HuggingFaceJson& json) {
  const std::string given = json.text("feed_forward_proj", "relu");
  std::vector<std::string_view> known;
  for (const FeedForwardName& entry : feed_forward_names()) {
    if (entry.name == given) return entry.activation;
    known.push_back(entry.name);
  }
  json.fail(fmt::format("`feed_forward_proj` is {}, which cannot be converted", given),
            fmt::format("one of {}", fmt::join(known, ", ")));
}

/// Whether a file without `scale_decoder_outputs` means scaled logits. Before version 5 of transformers separate softmax
/// weights implied unscaled ones, and the library wrote no such key. Since then it never scales those of an mT5, for which
/// it writes `tie_word_embeddings: true` whatever the weights are.
bool scales_if_unsaid(const HuggingFaceJson& json, bool tied) {
  constexpr int64_t scaling_version = 4;
  const bool is_mt5 = json.text("model_type", "") == "mt5";
  return tied && !(is_mt5 && json.major_version("transformers_version", scaling_version) > scaling_version);
}

}  // namespace

bool has_feed_forward_name(const std::vector<Activation>& activation) {
  return std::ranges::any_of(feed_forward_names(),
                             [&](const FeedForwardName& name) { return name.activation == activation; });
}

T5Config parse_t5_config(const std::string& text, const std::string& path) {
  const HuggingFaceJson json(text, path);
  if (const std::string type = json.text("model_type", "none"); type != "t5" && type != "mt5")
    json.fail(fmt::format("`model_type` is {}, which cannot be converted", type), "t5, or mt5");
  const char* const ids = "padding, and the start of a decoder, is id 0, the end of a sequence id 1";
  json.require("pad_token_id", 0, ids);
  json.require("decoder_start_token_id", 0, ids);
  json.require("eos_token_id", 1, ids);
  json.require("relative_attention_max_distance", kMaxDistance,
               "all distances from 128 on share a bucket of the relative positions");
  T5Config t5;
  t5.vocab_size = json.size("vocab_size", t5.vocab_size);
  t5.d_model = json.size("d_model", t5.d_model);
  t5.d_kv = json.size("d_kv", t5.d_kv);
  t5.d_ff = json.size("d_ff", t5.d_ff);
  t5.num_layers = json.size("num_layers", t5.num_layers);
  t5.num_decoder_layers = json.size("num_decoder_layers", t5.num_layers);
  t5.num_heads = json.size("num_heads", t5.num_heads);
  t5.num_buckets = json.size("relative_attention_num_buckets", t5.num_buckets);
  t5.dropout = json.number("dropout_rate", t5.dropout);
  t5.epsilon = json.number("layer_norm_epsilon", t5.epsilon);
  t5.activation = parse_feed_forward(json);
  t5.tied = json.flag("tie_word_embeddings", true);
  t5.scaled_logits = json.flag("scale_decoder_outputs", scales_if_unsaid(json, t5.tied));
  return t5;
}

std::string t5_json(const T5Config& t5) {
  const auto name = std::ranges::find(feed_forward_names(), t5.activation, &FeedForwardName::activation);
  const bool gated = t5.activation.size() > 1;
  const std::string_view function = name->name.substr(gated ? std::string_view("gated-").size() : 0);
  const nlohmann::ordered_json json = {
      {"architectures", {"T5ForConditionalGeneration"}},
      {"model_type", "t5"},
      {"is_encoder_decoder", true},
      {"vocab_size", t5.vocab_size},
      {"d_model", t5.d_model},
      {"d_kv", t5.d_kv},
      {"d_ff", t5.d_ff},
      {"num_layers", t5.num_layers},
      {"num_decoder_layers", t5.num_decoder_layers},
      {"num_heads", t5.num_heads},
      {"relative_attention_num_buckets", t5.num_buckets},
      {"relative_attention_max_distance", kMaxDistance},
      {"dropout_rate", t5.dropout},
      {"layer_norm_epsilon", t5.epsilon},
      {"initializer_factor", 1.0},
      {"feed_forward_proj", name->name},
      {"is_gated_act", gated},
      {"dense_act_fn", function == "gelu" ? "gelu_new" : function},
      {"tie_word_embeddings", t5.tied},
      {"scale_decoder_outputs", t5.scaled_logits},
      {"pad_token_id", kPadId},
      {"eos_token_id", kEosId},
      {"decoder_start_token_id", kPadId},
      {"use_cache", true},
      {"torch_dtype", "float32"},
  };
  return json.dump(2) + "\n";
}

}  // namespace mtf
