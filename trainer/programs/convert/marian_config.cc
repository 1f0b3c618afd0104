#include "trainer/programs/convert/marian_config.h"

#include <fmt/format.h>

#include <algorithm>

#include "trainer/programs/convert/hugging_face.h"

namespace mtf {
namespace {

/// The value of a key that is one id, or a list of one. Throws Error (kCheckpoint) for another.
int32_t parse_id(const HuggingFaceJson& json, const char* key, int32_t otherwise, int64_t ids) {
  if (!json.has(key)) return otherwise;
  const nlohmann::json& given = json.at(key);
  const nlohmann::json id = given.is_array() && given.size() == 1 ? given[0] : given;
  if (!id.is_number_unsigned() || id >= ids)
    json.fail(fmt::format("`{}` is {}, no id of a token", key, given.dump()),
              fmt::format("an id below {}", ids));
  return id.get<int32_t>();
}

MarianStack parse_stack(const HuggingFaceJson& json, const std::string& side, int64_t d_model,
                        std::vector<std::string>& notes) {
  const auto size = [&](const char* key, int64_t otherwise) {
    return json.size(fmt::format("{}_{}", side, key).c_str(), otherwise);
  };
  const MarianStack usual;
  const MarianStack stack{.num_layers = size("layers", usual.num_layers),
                          .num_heads = size("attention_heads", usual.num_heads),
                          .intermediate = size("ffn_dim", usual.intermediate)};
  if (d_model % stack.num_heads != 0)
    json.fail(fmt::format("`d_model` {} cannot be divided among {} heads", d_model, stack.num_heads),
              fmt::format("`{}_attention_heads` that divides it", side));
  if (json.number(fmt::format("{}_layerdrop", side).c_str(), 0) > 0)
    notes.push_back(fmt::format("`{}_layerdrop`: training here leaves out no layers", side));
  return stack;
}

}  // namespace

MarianConfig parse_marian_config(const std::string& text, const std::string& path,
                                 std::vector<std::string>& notes) {
  const HuggingFaceJson json(text, path);
  if (const std::string type = json.text("model_type", "none"); type != "marian")
    json.fail(fmt::format("`model_type` is {}, which cannot be converted", type), "marian");
  json.require("is_encoder_decoder", true, "a Marian translates");
  const char* const norms = "the norms of a Marian stand behind its layers";
  json.require("normalize_before", false, norms);
  json.require("normalize_embedding", false, norms);
  json.require("add_final_layer_norm", false, norms);
  json.require("static_position_embeddings", true, "the positions of a Marian are sinusoids");
  MarianConfig marian;
  marian.vocab_size = json.size("vocab_size", marian.vocab_size);
  marian.decoder_vocab_size = json.size("decoder_vocab_size", marian.vocab_size);
  marian.shared_embedding = json.flag("share_encoder_decoder_embeddings", marian.shared_embedding);
  if (marian.shared_embedding) marian.decoder_vocab_size = marian.vocab_size;
  const int64_t ids = std::min(marian.vocab_size, marian.decoder_vocab_size);
  marian.padding = parse_id(json, "pad_token_id", marian.padding, ids);
  marian.end = parse_id(json, "eos_token_id", marian.end, ids);
  if (marian.padding >= ids)
    json.fail(fmt::format("there is no `pad_token_id`, and {} is no id of a token", marian.padding),
              "`pad_token_id`");
  if (marian.padding == marian.end)
    json.fail(fmt::format("`pad_token_id` and `eos_token_id` are both {}", marian.end), "ids of two tokens");
  if (const int32_t start = parse_id(json, "decoder_start_token_id", MarianConfig().padding, INT32_MAX);
      start != marian.padding)
    json.fail(fmt::format("`decoder_start_token_id` is {}, and `pad_token_id` {}", start, marian.padding),
              "texts begin with padding, which is one id here");
  marian.d_model = json.size("d_model", marian.d_model);
  if (marian.d_model % 2 != 0)
    json.fail(fmt::format("`d_model` is {}", marian.d_model), "an even number, which sinusoids need");
  marian.encoder = parse_stack(json, "encoder", marian.d_model, notes);
  marian.decoder = parse_stack(json, "decoder", marian.d_model, notes);
  marian.max_positions = json.size("max_position_embeddings", marian.max_positions);
  marian.activation = parse_activation(json, "activation_function", "gelu");
  marian.dropout = json.number("dropout", marian.dropout);
  marian.attention_dropout = json.number("attention_dropout", marian.attention_dropout);
  marian.activation_dropout = json.number("activation_dropout", marian.activation_dropout);
  marian.scales_embedding = json.flag("scale_embedding", marian.scales_embedding);
  marian.tied = json.flag("tie_word_embeddings", marian.tied);
  return marian;
}

void parse_marian_generation(const std::string& text, const std::string& path, MarianConfig& marian,
                             std::vector<std::string>& notes) {
  const HuggingFaceJson json(text, path);
  json.require("decoder_start_token_id", marian.padding, "texts begin with padding");
  marian.num_beams = json.size("num_beams", marian.num_beams);
  if (!json.has("bad_words_ids")) return;
  for (const nlohmann::json& word : json.at("bad_words_ids")) {
    if (word == nlohmann::json::array({marian.padding})) {
      marian.predicts_padding = false;
    } else {
      notes.push_back(
          fmt::format("{}: `bad_words_ids` has {}, which decoding here does not forbid", path, word.dump()));
    }
  }
}

std::string marian_json(const MarianConfig& marian) {
  const nlohmann::ordered_json json = {
      {"architectures", {"MarianMTModel"}},
      {"model_type", "marian"},
      {"is_encoder_decoder", true},
      {"vocab_size", marian.vocab_size},
      {"decoder_vocab_size", marian.decoder_vocab_size},
      {"d_model", marian.d_model},
      {"encoder_layers", marian.encoder.num_layers},
      {"encoder_attention_heads", marian.encoder.num_heads},
      {"encoder_ffn_dim", marian.encoder.intermediate},
      {"decoder_layers", marian.decoder.num_layers},
      {"decoder_attention_heads", marian.decoder.num_heads},
      {"decoder_ffn_dim", marian.decoder.intermediate},
      {"num_hidden_layers", marian.encoder.num_layers},
      {"max_position_embeddings", marian.max_positions},
      {"activation_function", activation_name(marian.activation)},
      {"dropout", marian.dropout},
      {"attention_dropout", marian.attention_dropout},
      {"activation_dropout", marian.activation_dropout},
      {"encoder_layerdrop", 0.0},
      {"decoder_layerdrop", 0.0},
      {"init_std", 0.02},
      {"normalize_before", false},
      {"normalize_embedding", false},
      {"add_final_layer_norm", false},
      {"static_position_embeddings", true},
      {"scale_embedding", marian.scales_embedding},
      {"share_encoder_decoder_embeddings", marian.shared_embedding},
      {"tie_word_embeddings", marian.tied},
      {"pad_token_id", marian.padding},
      {"eos_token_id", marian.end},
      {"forced_eos_token_id", marian.end},
      {"decoder_start_token_id", marian.padding},
      {"use_cache", true},
      {"torch_dtype", "float32"},
  };
  return json.dump(2) + "\n";
}

std::string marian_generation_json(const MarianConfig& marian) {
  nlohmann::ordered_json json = {{"decoder_start_token_id", marian.padding}, {"eos_token_id", marian.end},
                                 {"forced_eos_token_id", marian.end},        {"pad_token_id", marian.padding},
                                 {"max_length", marian.max_positions},       {"num_beams", marian.num_beams}};
  if (!marian.predicts_padding) {
    const auto padding = nlohmann::ordered_json::array({marian.padding});
    json["bad_words_ids"] = nlohmann::ordered_json::array({padding});
  }
  return json.dump(2) + "\n";
}

}  // namespace mtf
