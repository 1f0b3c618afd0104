#include "trainer/programs/convert/bert_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

namespace mtf {
namespace {

using Names = std::map<std::string, BertTensor>;

/// The names of a family's tensors.
struct FamilyTensors {
  std::string_view encoder;       ///< what the names of the encoder's tensors begin with
  std::string_view before_block;  ///< what stands before the number of a block
  std::vector<std::string_view> heads;
  Names outer;     ///< by the names of variables that do not depend on the block
  Names in_block;  ///< by what stands behind transformer/block_007/
};

/// What the embeddings of all families have; a DistilBERT has no types.
void add_embeddings(const std::string& encoder, Names& names) {
  names.insert({{"embedding/embedding", {{encoder + "embeddings.word_embeddings.weight"}, true}},
                {"positions/positional_embedding", {{encoder + "embeddings.position_embeddings.weight"}}},
                {"layer_norm/layer_norm_scale", {{encoder + "embeddings.LayerNorm.weight"}}},
                {"layer_norm/layer_norm_bias", {{encoder + "embeddings.LayerNorm.bias"}}},
                {"qa_outputs/kernel", {{"qa_outputs.weight", true}}},
                {"qa_outputs/bias", {{"qa_outputs.bias"}}}});
  if (encoder != "distilbert.")
    names["token_types/embedding"] = {{encoder + "embeddings.token_type_embeddings.weight"}};
}

/// The layers between the vectors of hidden tokens and their logits: those of a list `transform`, and the default ones.
void add_transform(const std::string& dense, const std::string& norm, const std::string& bias, Names& names) {
  names.insert({{"predictions/dense/kernel", {{dense + ".weight", true}}},
                {"predictions/dense/bias", {{dense + ".bias"}}},
                {"predictions/output_bias", {{bias}, true}}});
  for (const char* scope : {"predictions/", "predictions/layer_norm/"}) {
    names[std::string(scope) + "layer_norm_scale"] = {{norm + ".weight"}};
    names[std::string(scope) + "layer_norm_bias"] = {{norm + ".bias"}};
  }
}

void add_dense(const std::string& variable, const std::string& tensor, Names& names) {
  names[variable + "/kernel"] = {{tensor + ".weight", true}};
  names[variable + "/bias"] = {{tensor + ".bias"}};
}

/// The names of the layers of a block.
Names block_tensors(const std::map<std::string, std::string>& attention, const std::string& attention_norm,
                    const std::string& first, const std::string& second, const std::string& second_norm) {
  Names names;
  for (const auto& [variable, tensor] : attention) {
    names["layer_000/SelfAttention/" + variable] = {{tensor + ".weight", true}};
    names["layer_000/SelfAttention/" + variable + "_bias"] = {{tensor + ".bias"}};
  }
  add_dense("layer_001/DenseReluDense/wi", first, names);
  add_dense("layer_001/DenseReluDense/wo", second, names);
  for (const auto& [layer, norm] : {std::pair{"layer_000", attention_norm}, {"layer_001", second_norm}}) {
    names[fmt::format("{}/layer_norm/layer_norm_scale", layer)] = {{norm + ".weight"}};
    names[fmt::format("{}/layer_norm/layer_norm_bias", layer)] = {{norm + ".bias"}};
  }
  return names;
}

Names bert_blocks() {
  return block_tensors({{"q", "attention.self.query"},
                        {"k", "attention.self.key"},
                        {"v", "attention.self.value"},
                        {"o", "attention.output.dense"}},
                       "attention.output.LayerNorm", "intermediate.dense", "output.dense",
                       "output.LayerNorm");
}

FamilyTensors bert_tensors() {
  FamilyTensors made{"bert.", "encoder.layer.", {"cls."}, {}, bert_blocks()};
  add_embeddings("bert.", made.outer);
  add_transform("cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm",
                "cls.predictions.bias", made.outer);
  add_dense("pooler", "bert.pooler.dense", made.outer);
  add_dense("next_sentence", "cls.seq_relationship", made.outer);
  add_dense("classifier", "classifier", made.outer);
  return made;
}

FamilyTensors roberta_tensors() {
  FamilyTensors made{"roberta.", "encoder.layer.", {"lm_head."}, {}, bert_blocks()};
  add_embeddings("roberta.", made.outer);
  add_transform("lm_head.dense", "lm_head.layer_norm", "lm_head.bias", made.outer);
  add_dense("pooler", "classifier.dense", made.outer);
  add_dense("classifier", "classifier", made.outer);
  return made;
}

FamilyTensors distilbert_tensors() {
  FamilyTensors made{"distilbert.",
                     "transformer.layer.",
                     {"vocab_transform.", "vocab_layer_norm.", "vocab_projector."},
                     {},
                     block_tensors({{"q", "attention.q_lin"},
                                    {"k", "attention.k_lin"},
                                    {"v", "attention.v_lin"},
                                    {"o", "attention.out_lin"}},
                                   "sa_layer_norm", "ffn.lin1", "ffn.lin2", "output_layer_norm")};
  add_embeddings("distilbert.", made.outer);
  add_transform("vocab_transform", "vocab_layer_norm", "vocab_projector.bias", made.outer);
  add_dense("pooler", "pre_classifier", made.outer);
  add_dense("classifier", "classifier", made.outer);
  return made;
}

FamilyTensors modern_bert_tensors() {
  FamilyTensors made{"model.",
                     "layers.",
                     {"head.", "decoder."},
                     {{"embedding/embedding", {{"model.embeddings.tok_embeddings.weight"}, true}},
                      {"layer_norm/layer_norm_scale", {{"model.embeddings.norm.weight"}}},
                      {"transformer/layer_norm/layer_norm_scale", {{"model.final_norm.weight"}}},
                      {"pooler/kernel", {{"head.dense.weight", true}}},
                      {"head/kernel", {{"head.dense.weight", true}}},
                      {"head_norm/layer_norm_scale", {{"head.norm.weight"}}}},
                     {{"layer_000/SelfAttention/o", {{"attn.Wo.weight", true}}},
                      {"layer_000/layer_norm/layer_norm_scale", {{"attn_norm.weight"}}},
                      {"layer_001/layer_norm/layer_norm_scale", {{"mlp_norm.weight"}}},
                      {"layer_001/DenseReluDense/wi_0/kernel", {{"mlp.Wi.weight", true}}},
                      {"layer_001/DenseReluDense/wi_1/kernel", {{"mlp.Wi.weight", true}}},
                      {"layer_001/DenseReluDense/wo/kernel", {{"mlp.Wo.weight", true}}}}};
  for (const char* projection : {"q", "k", "v"})
    made.in_block[std::string("layer_000/SelfAttention/") + projection] = {{"attn.Wqkv.weight", true}};
  add_transform("head.dense", "head.norm", "decoder.bias", made.outer);
  add_dense("classifier", "classifier", made.outer);
  add_dense("qa_outputs", "classifier", made.outer);
  return made;
}

const FamilyTensors& tensors_of(BertFamily family) {
  static const FamilyTensors bert = bert_tensors(), roberta = roberta_tensors(),
                             distilbert = distilbert_tensors(), modern = modern_bert_tensors();
  if (family == BertFamily::kModernBert) return modern;
  if (family == BertFamily::kDistilBert) return distilbert;
  return is_roberta(family) ? roberta : bert;
}

/// The place of a variable in a model: the number of its layer, and the rest of its name as in the first layer.
struct PlaceInBert {
  int64_t layer = 0;
  std::string rest;
};

std::optional<PlaceInBert> place_in_bert(const std::string& variable, const BertConfig& bert) {
  std::vector<std::string> parts = parts_of(variable);
  if (parts.size() < 4 || parts[0] != "transformer") return std::nullopt;
  const std::optional<int> block = number_of(parts[1], "block"), layer = number_of(parts[2], "layer");
  if (!block || !layer) return std::nullopt;
  PlaceInBert place{.layer = *block, .rest = {}};
  if (bert.family == BertFamily::kModernBert) {
    if (*layer >= 2 * bert.modern.pattern()) return std::nullopt;
    place.layer = *block * bert.modern.pattern() + *layer / 2;
    parts[2] = *layer % 2 == 0 ? "layer_000" : "layer_001";
    if (parts[3] == "LocalSelfAttention") parts[3] = "SelfAttention";
  }
  place.rest = fmt::format("{}", fmt::join(parts.begin() + 2, parts.end(), "/"));
  return place;
}

/// Returns what a variable has of a tensor in which a ModernBERT has several.
std::optional<TensorPart> part_in_bert(const std::string& rest, const BertConfig& bert) {
  if (bert.family != BertFamily::kModernBert) return std::nullopt;
  const int64_t hidden = bert.hidden, inner = bert.intermediate;
  const std::map<std::string, TensorPart> parts = {
      {"layer_000/SelfAttention/q", {1, 0, hidden, 3 * hidden}},
      {"layer_000/SelfAttention/k", {1, hidden, hidden, 3 * hidden}},
      {"layer_000/SelfAttention/v", {1, 2 * hidden, hidden, 3 * hidden}},
      {"layer_001/DenseReluDense/wi_0/kernel", {1, 0, inner, 2 * inner}},
      {"layer_001/DenseReluDense/wi_1/kernel", {1, inner, inner, 2 * inner}}};
  const auto found = parts.find(rest);
  return found == parts.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace

std::optional<BertTensor> bert_tensor(const std::string& variable, const BertConfig& bert) {
  const FamilyTensors& tensors = tensors_of(bert.family);
  if (const auto found = tensors.outer.find(variable); found != tensors.outer.end()) {
    BertTensor tensor = found->second;
    // The head of a RoBERTa that classifies texts is a part of its own, unlike that of one that finds tags.
    if (is_roberta(bert.family) && bert.head != BertHead::kTagger && variable.starts_with("classifier/"))
      tensor.name.insert(tensor.name.find('.'), ".out_proj");
    return tensor;
  }
  const std::optional<PlaceInBert> place = place_in_bert(variable, bert);
  if (!place) return std::nullopt;
  const auto found = tensors.in_block.find(place->rest);
  if (found == tensors.in_block.end()) return std::nullopt;
  BertTensor tensor = found->second;
  tensor.name = fmt::format("{}{}{}.{}", tensors.encoder, tensors.before_block, place->layer, tensor.name);
  tensor.part = part_in_bert(place->rest, bert);
  return tensor;
}

std::string_view encoder_prefix(BertFamily family) { return tensors_of(family).encoder; }

bool is_of_pretraining(const std::string& tensor, BertFamily family) {
  return std::ranges::any_of(tensors_of(family).heads,
                             [&](std::string_view head) { return tensor.starts_with(head); });
}

bool is_unread(const std::string& tensor, BertFamily family) {
  const std::string_view encoder = tensors_of(family).encoder;
  const std::string_view inner =
      tensor.starts_with(encoder) ? std::string_view(tensor).substr(encoder.size()) : tensor;
  if (inner == "embeddings.position_ids") return true;
  if (family == BertFamily::kDistilBert) return tensor == "vocab_projector.weight";
  if (family == BertFamily::kModernBert) return tensor == "decoder.weight";
  if (is_roberta(family))
    return tensor.starts_with("lm_head.decoder.") || inner.starts_with("pooler.") ||
           inner == "embeddings.token_type_ids";
  return tensor.starts_with("cls.predictions.decoder.");
}

std::optional<std::string> original_of(const std::string& tensor, BertFamily family) {
  if (family == BertFamily::kModernBert)
    return tensor == "decoder.weight" ? std::optional("model.embeddings.tok_embeddings.weight")
                                      : std::nullopt;
  const std::string table = fmt::format("{}embeddings.word_embeddings.weight", tensors_of(family).encoder);
  if (family == BertFamily::kDistilBert)
    return tensor == "vocab_projector.weight" ? std::optional(table) : std::nullopt;
  const std::string layer = is_roberta(family) ? "lm_head" : "cls.predictions";
  if (tensor == layer + ".decoder.weight") return table;
  if (tensor == layer + ".decoder.bias") return layer + ".bias";
  return std::nullopt;
}

std::vector<std::string> names_in_files(const std::string& tensor, BertFamily family) {
  std::vector<std::string> names = {tensor};
  for (const auto& [now, before] :
       {std::pair{"LayerNorm.weight", "LayerNorm.gamma"}, {"LayerNorm.bias", "LayerNorm.beta"}}) {
    if (tensor.ends_with(now))
      names.push_back(tensor.substr(0, tensor.size() - std::string_view(now).size()) + before);
  }
  const std::string_view encoder = tensors_of(family).encoder;
  if (tensor.starts_with(encoder)) {
    const std::vector<std::string> with(names);
    for (const std::string& one : with) names.push_back(one.substr(encoder.size()));
  }
  return names;
}

}  // namespace mtf
