#include "trainer/programs/convert/bart_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "engine/base/check.h"
#include "trainer/programs/convert/hugging_face.h"

namespace mtf {
namespace {

BartStack parse_stack(const HuggingFaceJson& json, const std::string& side, int64_t d_model,
                      std::vector<std::string>& notes) {
  const auto size = [&](const char* key, int64_t otherwise) {
    return json.size(fmt::format("{}_{}", side, key).c_str(), otherwise);
  };
  const BartStack usual;
  const BartStack stack{.num_layers = size("layers", usual.num_layers),
                        .num_heads = size("attention_heads", usual.num_heads),
                        .intermediate = size("ffn_dim", usual.intermediate)};
  if (d_model % stack.num_heads != 0)
    json.fail(fmt::format("`d_model` {} cannot be divided among {} heads", d_model, stack.num_heads),
              fmt::format("`{}_attention_heads` that divides it", side));
  if (json.number(fmt::format("{}_layerdrop", side).c_str(), 0) > 0)
    notes.push_back(fmt::format("`{}_layerdrop`: training here leaves out no layers", side));
  return stack;
}

constexpr std::array kForms = {BartForm{BartKind::kMarian, "marian", "MarianMTModel", "Marian", false, false,
                                        Positions::kSinusoidHuggingFace, 0, true},
                               BartForm{BartKind::kBart, "bart", "BartForConditionalGeneration", "BART",
                                        false, true, Positions::kLearned, 2, true},
                               BartForm{BartKind::kMbart, "mbart", "MBartForConditionalGeneration", "mBART",
                                        true, true, Positions::kLearned, 2, true},
                               BartForm{BartKind::kM2m100, "m2m_100", "M2M100ForConditionalGeneration",
                                        "M2M100", true, false, Positions::kSinusoid, 2, false}};

/// The id that the decoder of a model begins with.
int32_t start_of(const BartConfig& bart) {
  return bart.start == DecoderStart::kPadding ? bart.padding : bart.end;
}

/// Sets what the decoder begins with.
void parse_start(const HuggingFaceJson& json, BartConfig& bart) {
  const auto usual =
      bart.kind == BartKind::kMbart ? std::nullopt : std::optional(start_of(default_bart(bart.kind)));
  if (!usual && !json.has("decoder_start_token_id"))
    json.fail("there is no `decoder_start_token_id`",
              "as in mBART-50, whose texts begin with `eos_token_id`");
  const int32_t start = parse_token_id(json, "decoder_start_token_id", INT32_MAX).value_or(usual.value_or(0));
  if (start != bart.padding && start != bart.end)
    json.fail(
        fmt::format("`decoder_start_token_id` is {}, and neither `pad_token_id` {} nor `eos_token_id` {}",
                    start, bart.padding, bart.end),
        "texts begin with one of these two here");
  bart.start = start == bart.padding ? DecoderStart::kPadding : DecoderStart::kEnd;
}

}  // namespace

const BartForm& form_of(BartKind kind) {
  const auto found = std::ranges::find(kForms, kind, &BartForm::kind);
  MTF_CHECK(found != kForms.end(), "a kind without a form");
  return *found;
}

std::vector<std::string_view> bart_types() {
  std::vector<std::string_view> types;
  for (const BartForm& form : kForms)
    if (form.kind != BartKind::kMarian) types.push_back(form.model_type);
  return types;
}

GenerationLengths generation_lengths(const BartConfig& bart) {
  return {.given = bart.forced_begin ? 2 : 1, .most = bart.max_positions};
}

BartConfig default_bart(BartKind kind) {
  BartConfig bart;
  if (kind == BartKind::kMarian) return bart;
  bart.kind = kind;
  bart.vocab_size = bart.decoder_vocab_size = kind == BartKind::kM2m100 ? 128112 : 50265;
  bart.begin = 0;
  bart.padding = 1;
  bart.end = 2;
  bart.start = DecoderStart::kEnd;
  if (kind == BartKind::kM2m100) {
    bart.activation = Activation::kRelu;
    bart.attention_dropout = 0.1;
    bart.scales_embedding = true;
  }
  return bart;
}

BartConfig parse_bart_config(const std::string& text, const std::string& path,
                             std::vector<std::string>& notes) {
  const HuggingFaceJson json(text, path);
  const std::string type = json.text("model_type", "none");
  const auto form = std::ranges::find(kForms, type, &BartForm::model_type);
  if (form == kForms.end())
    json.fail(
        fmt::format("`model_type` is {}, which cannot be converted", type),
        fmt::format("one of {}, {}", fmt::join(bart_types(), ", "), form_of(BartKind::kMarian).model_type));
  json.require("is_encoder_decoder", true, "the model has an encoder and a decoder");
  BartConfig bart = default_bart(form->kind);
  if (bart.kind == BartKind::kMarian) {
    const char* const norms = "the norms of a Marian stand behind its layers";
    json.require("normalize_before", false, norms);
    json.require("normalize_embedding", false, norms);
    json.require("add_final_layer_norm", false, norms);
    json.require("static_position_embeddings", true, "the positions of a Marian are sinusoids");
  }
  bart.vocab_size = json.size("vocab_size", bart.vocab_size);
  bart.decoder_vocab_size = bart.vocab_size;
  if (bart.kind == BartKind::kMarian) {
    bart.decoder_vocab_size = json.size("decoder_vocab_size", bart.vocab_size);
    bart.shared_embedding = json.flag("share_encoder_decoder_embeddings", bart.shared_embedding);
    if (bart.shared_embedding) bart.decoder_vocab_size = bart.vocab_size;
  }
  const int64_t ids = std::min(bart.vocab_size, bart.decoder_vocab_size);
  bart.padding = parse_token_id(json, "pad_token_id", ids).value_or(bart.padding);
  bart.end = parse_token_id(json, "eos_token_id", ids).value_or(bart.end);
  if (bart.begin) bart.begin = parse_token_id(json, "bos_token_id", ids).value_or(*bart.begin);
  if (bart.padding >= ids)
    json.fail(fmt::format("there is no `pad_token_id`, and {} is no id of a token", bart.padding),
              "`pad_token_id`");
  if (bart.padding == bart.end)
    json.fail(fmt::format("`pad_token_id` and `eos_token_id` are both {}", bart.end), "ids of two tokens");
  parse_start(json, bart);
  bart.d_model = json.size("d_model", bart.d_model);
  if (are_sinusoids(form->positions) && bart.d_model % 2 != 0)
    json.fail(fmt::format("`d_model` is {}", bart.d_model), "an even number, which sinusoids need");
  bart.encoder = parse_stack(json, "encoder", bart.d_model, notes);
  bart.decoder = parse_stack(json, "decoder", bart.d_model, notes);
  bart.max_positions = json.size("max_position_embeddings", bart.max_positions);
  bart.activation =
      parse_activation(json, "activation_function", std::string(activation_name(bart.activation)));
  bart.dropout = json.number("dropout", bart.dropout);
  bart.attention_dropout = json.number("attention_dropout", bart.attention_dropout);
  bart.activation_dropout = json.number("activation_dropout", bart.activation_dropout);
  bart.scales_embedding = json.flag("scale_embedding", bart.scales_embedding);
  bart.tied = json.flag("tie_word_embeddings", bart.tied);
  return bart;
}

void parse_bart_generation(const std::string& text, const std::string& path, BartConfig& bart,
                           std::vector<std::string>& notes) {
  const HuggingFaceJson json(text, path);
  json.require("decoder_start_token_id", start_of(bart), "texts begin as config.json says");
  bart.generation = parse_generation(text, path, bart.end, notes);
  bart.generation.is_given = true;
  if (bart.generation.max_length && *bart.generation.max_length >= bart.max_positions)
    bart.generation.max_length.reset();  // an export has the positions where it has no limit
  if (json.has("forced_bos_token_id"))
    bart.forced_begin = parse_token_id(json, "forced_bos_token_id", bart.decoder_vocab_size);
  bart.predicts_padding = std::erase(bart.generation.suppress_tokens, bart.padding) == 0;
}

std::string bart_json(const BartConfig& bart) {
  const BartForm& form = form_of(bart.kind);
  nlohmann::ordered_json json = {
      {"architectures", {form.architecture}},
      {"model_type", form.model_type},
      {"is_encoder_decoder", true},
      {"vocab_size", bart.vocab_size},
      {"d_model", bart.d_model},
      {"encoder_layers", bart.encoder.num_layers},
      {"encoder_attention_heads", bart.encoder.num_heads},
      {"encoder_ffn_dim", bart.encoder.intermediate},
      {"decoder_layers", bart.decoder.num_layers},
      {"decoder_attention_heads", bart.decoder.num_heads},
      {"decoder_ffn_dim", bart.decoder.intermediate},
      {"num_hidden_layers", bart.encoder.num_layers},
      {"max_position_embeddings", bart.max_positions},
      {"activation_function", activation_name(bart.activation)},
      {"dropout", bart.dropout},
      {"attention_dropout", bart.attention_dropout},
      {"activation_dropout", bart.activation_dropout},
      {"encoder_layerdrop", 0.0},
      {"decoder_layerdrop", 0.0},
      {"init_std", 0.02},
      {"scale_embedding", bart.scales_embedding},
      {"tie_word_embeddings", bart.tied},
      {"pad_token_id", bart.padding},
      {"eos_token_id", bart.end},
      {"decoder_start_token_id", start_of(bart)},
      {"use_cache", true},
      {"torch_dtype", "float32"},
  };
  if (bart.kind == BartKind::kMarian) {
    json.update({{"decoder_vocab_size", bart.decoder_vocab_size},
                 {"normalize_before", false},
                 {"normalize_embedding", false},
                 {"add_final_layer_norm", false},
                 {"static_position_embeddings", true},
                 {"share_encoder_decoder_embeddings", bart.shared_embedding}});
  }
  // Where config.json is silent, the classes of transformers have an end of their own.
  if (bart.kind != BartKind::kM2m100)
    json["forced_eos_token_id"] = bart.generation.forces_end ? nlohmann::ordered_json(bart.end) : nullptr;
  if (bart.begin) json["bos_token_id"] = *bart.begin;
  return json.dump(2) + "\n";
}

std::string bart_generation_json(const BartConfig& bart) {
  nlohmann::ordered_json json = {{"decoder_start_token_id", start_of(bart)},
                                 {"eos_token_id", bart.end},
                                 {"pad_token_id", bart.padding},
                                 {"max_length", bart.max_positions}};
  add_generation(bart.generation, json);
  if (bart.begin) json["bos_token_id"] = *bart.begin;
  if (bart.forced_begin) json["forced_bos_token_id"] = *bart.forced_begin;
  if (!bart.predicts_padding) {
    const auto padding = nlohmann::ordered_json::array({bart.padding});
    json["bad_words_ids"] = nlohmann::ordered_json::array({padding});
  }
  return json.dump(2) + "\n";
}

}  // namespace mtf
