// What a ModernBERT has in place of the layers of a BERT: norms before its layers, which have no biases, gated units, rotary
// positions with angles of their own in layers of local attention, and a dense layer with a norm before the last one.
// Warner et al., Smarter, Better, Faster, Longer, 2024.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "engine/config/load.h"
#include "trainer/config/config.h"
#include "trainer/programs/convert/bert_config.h"
#include "trainer/programs/convert/bert_layers.h"
#include "trainer/programs/convert/hugging_face.h"

namespace mtf {

/// Sets the hyperparameters of keys that the config.json of a ModernBERT omits.
void set_modern_bert_defaults(BertConfig& bert);
/// Reads what config.json says of a ModernBERT alone, once the sizes are known. Throws Error (kCheckpoint).
void parse_modern_bert(const HuggingFaceJson& json, BertConfig& bert);
/// Adds the keys that only a ModernBERT has.
void add_modern_bert_keys(const BertConfig& bert, nlohmann::ordered_json& json);

/// True for a section `model` whose layers have a transformer, but neither positions nor types of tokens.
bool is_modern_bert(const config::Node& model);
/// Returns the ModernBERT of a configuration, as bert_of() does. Throws Error (kConfig).
BertConfig modern_bert_of(const Config& config);

/// Returns these parts of a ModernBERT.
EncoderText modern_bert_text(const BertConfig& bert, const std::string& initializer);

}  // namespace mtf
