#include "trainer/programs/convert/causal_lm.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <set>
#include <span>

#include "data/vocabulary/renumbering.h"
#include "data/vocabulary/vocabulary_options.h"
#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "engine/base/replace_all.h"
#include "engine/config/load.h"
#include "trainer/programs/convert/config_text.h"
#include "trainer/programs/convert/files.h"
#include "trainer/programs/convert/row_order.h"
#include "trainer/programs/convert/tokenizer_ids.h"

namespace mtf {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kCausalLm = "language model";
constexpr const char *kTokens = "tokenizer.json", *kChatTemplate = "chat_template.jinja";
constexpr const char* kLmHead = "lm_head.weight";
/// The scope of all variables.
constexpr std::string_view kScope = "transformer/";

using TensorNames = std::map<std::string, CausalLmTensor>;

/// The tensors that do not depend on the block.
const TensorNames& outer_tensors(bool is_gpt2) {
  static const CausalLmTensor logits{{kLmHead, true}, {}, true};
  static const TensorNames gpt2 = {{"embedding", {{"transformer.wte.weight"}, {}, true}},
                                   {"positional_embedding", {{"transformer.wpe.weight"}}},
                                   {"layer_norm/layer_norm_scale", {{"transformer.ln_f.weight"}}},
                                   {"layer_norm/layer_norm_bias", {{"transformer.ln_f.bias"}}},
                                   {"logits/kernel", logits}};
  static const TensorNames llama = {{"embedding", {{"model.embed_tokens.weight"}, {}, true}},
                                    {"rms_norm/scale", {{"model.norm.weight"}}},
                                    {"logits/kernel", logits}};
  return is_gpt2 ? gpt2 : llama;
}

/// Names behind transformer/block_007/ and behind transformer.h.7.
const TensorNames& gpt2_block() {
  static const TensorNames names = {{"layer_000/layer_norm/layer_norm_scale", {{"ln_1.weight"}}},
                                    {"layer_000/layer_norm/layer_norm_bias", {{"ln_1.bias"}}},
                                    {"layer_000/SelfAttention/q", {{"attn.c_attn.weight"}, 0}},
                                    {"layer_000/SelfAttention/k", {{"attn.c_attn.weight"}, 1}},
                                    {"layer_000/SelfAttention/v", {{"attn.c_attn.weight"}, 2}},
                                    {"layer_000/SelfAttention/q_bias", {{"attn.c_attn.bias"}, 0}},
                                    {"layer_000/SelfAttention/k_bias", {{"attn.c_attn.bias"}, 1}},
                                    {"layer_000/SelfAttention/v_bias", {{"attn.c_attn.bias"}, 2}},
                                    {"layer_000/SelfAttention/o", {{"attn.c_proj.weight"}}},
                                    {"layer_000/SelfAttention/o_bias", {{"attn.c_proj.bias"}}},
                                    {"layer_001/layer_norm/layer_norm_scale", {{"ln_2.weight"}}},
                                    {"layer_001/layer_norm/layer_norm_bias", {{"ln_2.bias"}}},
                                    {"layer_001/DenseReluDense/wi/kernel", {{"mlp.c_fc.weight"}}},
                                    {"layer_001/DenseReluDense/wi/bias", {{"mlp.c_fc.bias"}}},
                                    {"layer_001/DenseReluDense/wo/kernel", {{"mlp.c_proj.weight"}}},
                                    {"layer_001/DenseReluDense/wo/bias", {{"mlp.c_proj.bias"}}}};
  return names;
}

/// Names behind transformer/block_007/ and behind model.layers.7.
const TensorNames& llama_block() {
  static const TensorNames names = {
      {"layer_000/rms_norm/scale", {{"input_layernorm.weight"}}},
      {"layer_000/SelfAttention/q", {{"self_attn.q_proj.weight", true}}},
      {"layer_000/SelfAttention/q_bias", {{"self_attn.q_proj.bias"}}},
      {"layer_000/SelfAttention/q_norm/scale", {{"self_attn.q_norm.weight"}}},
      {"layer_000/SelfAttention/k", {{"self_attn.k_proj.weight", true}}},
      {"layer_000/SelfAttention/k_bias", {{"self_attn.k_proj.bias"}}},
      {"layer_000/SelfAttention/k_norm/scale", {{"self_attn.k_norm.weight"}}},
      {"layer_000/SelfAttention/v", {{"self_attn.v_proj.weight", true}}},
      {"layer_000/SelfAttention/v_bias", {{"self_attn.v_proj.bias"}}},
      {"layer_000/SelfAttention/o", {{"self_attn.o_proj.weight", true}}},
      {"layer_000/SelfAttention/o_bias", {{"self_attn.o_proj.bias"}}},
      {"layer_001/rms_norm/scale", {{"post_attention_layernorm.weight"}}},
      {"layer_001/DenseReluDense/wi_0/kernel", {{"mlp.gate_proj.weight", true}}},
      {"layer_001/DenseReluDense/wi_0/bias", {{"mlp.gate_proj.bias"}}},
      {"layer_001/DenseReluDense/wi_1/kernel", {{"mlp.up_proj.weight", true}}},
      {"layer_001/DenseReluDense/wi_1/bias", {{"mlp.up_proj.bias"}}},
      {"layer_001/DenseReluDense/wo/kernel", {{"mlp.down_proj.weight", true}}},
      {"layer_001/DenseReluDense/wo/bias", {{"mlp.down_proj.bias"}}}};
  return names;
}

/// The same for a Gemma 2 or 3, whose layers have a norm behind them, too.
const TensorNames& gemma_block() {
  static const TensorNames names = [] {
    TensorNames gemma = llama_block();
    gemma["layer_000/rms_norm_1/scale"] = {{"post_attention_layernorm.weight"}};
    gemma["layer_001/rms_norm/scale"] = {{"pre_feedforward_layernorm.weight"}};
    gemma["layer_001/rms_norm_1/scale"] = {{"post_feedforward_layernorm.weight"}};
    return gemma;
  }();
  return names;
}

CausalLmTensor kernels_of_experts(const char* of_each, const char* of_all, int64_t part, int64_t parts) {
  CausalLmTensor tensor;
  tensor.experts = {of_each, of_all, part, parts};
  return tensor;
}

/// The layers of a model with experts; names as in llama_block().
const TensorNames& block_with_experts(bool is_mixtral) {
  constexpr const char *wi = "mlp.experts.gate_up_proj", *wo = "mlp.experts.down_proj";
  static const TensorNames mixtral = [] {
    TensorNames names = llama_block();
    names.insert({{"layer_001/MoE1D/top_k_gating/kernel", {{"block_sparse_moe.gate.weight", true}}},
                  {"layer_001/MoE1D/wi_0/kernel",
                   kernels_of_experts("block_sparse_moe.experts.*.w1.weight", wi, 0, 2)},
                  {"layer_001/MoE1D/wi_1/kernel",
                   kernels_of_experts("block_sparse_moe.experts.*.w3.weight", wi, 1, 2)},
                  {"layer_001/MoE1D/wo/kernel",
                   kernels_of_experts("block_sparse_moe.experts.*.w2.weight", wo, 0, 1)}});
    return names;
  }();
  static const TensorNames others = [] {
    TensorNames names = llama_block();
    names.insert(
        {{"layer_001/MoE1D/top_k_gating/kernel", {{"mlp.gate.weight", true}}},
         {"layer_001/MoE1D/wi_0/kernel", kernels_of_experts("mlp.experts.*.gate_proj.weight", wi, 0, 2)},
         {"layer_001/MoE1D/wi_1/kernel", kernels_of_experts("mlp.experts.*.up_proj.weight", wi, 1, 2)},
         {"layer_001/MoE1D/wo/kernel", kernels_of_experts("mlp.experts.*.down_proj.weight", wo, 0, 1)},
         {"layer_001/MoE1D/shared/wi_0/kernel", {{"mlp.shared_expert.gate_proj.weight", true}}},
         {"layer_001/MoE1D/shared/wi_1/kernel", {{"mlp.shared_expert.up_proj.weight", true}}},
         {"layer_001/MoE1D/shared/wo/kernel", {{"mlp.shared_expert.down_proj.weight", true}}},
         {"layer_001/MoE1D/shared/gate/kernel", {{"mlp.shared_expert_gate.weight", true}}}});
    return names;
  }();
  return is_mixtral ? mixtral : others;
}

const TensorNames& block_tensors(const CausalLmConfig& lm) {
  if (lm.is_gpt2()) return gpt2_block();
  if (lm.experts) return block_with_experts(lm.family == CausalLmFamily::kMixtral);
  return lm.has_outer_norms() ? gemma_block() : llama_block();
}

/// The file of a model without a head lacks the first part of the names. Files with one tensor for all experts give the layer of a
/// Mixtral the name that others have.
const StoredTensor* find_tensor(const HuggingFaceFiles& files, const std::string& name) {
  std::string as_in_others = name;
  replace_all(as_in_others, ".block_sparse_moe.", ".mlp.");
  for (const std::string& known : {name, as_in_others}) {
    const StoredTensor* tensor = files.find(known);
    if (!tensor && known != kLmHead) tensor = files.find(known.substr(known.find('.') + 1));
    if (tensor) return tensor;
  }
  return nullptr;
}

const StoredTensor& tensor_of(const HuggingFaceFiles& files, const std::string& name) {
  const StoredTensor* tensor = find_tensor(files, name);
  return tensor ? *tensor : files.at(name);
}

/// Buffers of masks and angles, which old files have.
bool is_buffer(const std::string& name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") ||
         name.ends_with(".rotary_emb.inv_freq");
}

/// Softmax weights that are the embedding are not stored, or twice.
void settle_lm_head(const HuggingFaceFiles& files, CausalLmConfig& lm) {
  const StoredTensor* softmax = files.find(kLmHead);
  if (!softmax || !lm.tied) return;
  const std::string embedding = outer_tensors(lm.is_gpt2()).at("embedding").name;
  lm.tied = std::ranges::equal(softmax->data, tensor_of(files, embedding).data);
}

/// Returns a third of the columns.
RearrangedTensor third_of(const StoredTensor& stored, int64_t third) {
  RearrangedTensor made{std::vector<std::byte>(stored.data.size() / 3), stored};
  const int64_t columns = stored.shape.back() / 3;
  const size_t width = static_cast<size_t>(columns) * size_of(stored.dtype);
  for (size_t row = 0; row < made.bytes.size() / width; ++row) {
    const size_t begin = (3 * row + static_cast<size_t>(third)) * width;
    std::ranges::copy(stored.data.subspan(begin, width), &made.bytes[row * width]);
  }
  made.tensor.shape.back() = columns;
  made.tensor.data = made.bytes;
  return made;
}

/// Rows of a tensor that holds several, one behind another.
struct TensorRows {
  std::string name;
  int64_t begin = 0, count = 0, all = 0;
};

/// Returns where a file with fused tensors has the one that others call `name`; nullopt: under this name.
std::optional<TensorRows> fused_rows(const std::string& name, const CausalLmConfig& lm) {
  const int64_t q = lm.num_heads * lm.head_size, kv = lm.num_memory_heads * lm.head_size,
                wi = lm.intermediate;
  const std::map<std::string, TensorRows> parts = {
      {"self_attn.q_proj.weight", {"self_attn.qkv_proj.weight", 0, q, q + 2 * kv}},
      {"self_attn.k_proj.weight", {"self_attn.qkv_proj.weight", q, kv, q + 2 * kv}},
      {"self_attn.v_proj.weight", {"self_attn.qkv_proj.weight", q + kv, kv, q + 2 * kv}},
      {"mlp.gate_proj.weight", {"mlp.gate_up_proj.weight", 0, wi, 2 * wi}},
      {"mlp.up_proj.weight", {"mlp.gate_up_proj.weight", wi, wi, 2 * wi}}};
  for (const auto& [own, rows] : parts) {
    if (!lm.is_fused || !name.ends_with(own)) continue;
    return TensorRows{name.substr(0, name.size() - own.size()) + rows.name, rows.begin, rows.count, rows.all};
  }
  return std::nullopt;
}

/// Adds a number to all values.
void add(float number, std::span<float> values) {
  for (float& value : values) value += number;
}

/// Returns the value of a variable from its tensor.
HostTensor imported(const Variable& variable, const CausalLmTensor& theirs, const StoredTensor& stored,
                    const CausalLmConfig& lm, const std::vector<int32_t>& file_ids, const std::string& from) {
  if (theirs.has_row_of_each_id) {
    check_stored(stored, {lm.vocab_size, lm.hidden}, from);
    const bool is_softmax = theirs.transposed;
    const auto rows = rows_by_id(stored, file_ids, is_softmax ? std::nullopt : lm.end);
    return value_of(variable, rows.tensor, theirs.transposed, from);
  }
  if (!theirs.third) {
    HostTensor value = value_of(variable, stored, theirs.transposed, from);
    if (theirs.is_less_one) add(1, {value.data<float>(), static_cast<size_t>(value.shape.size())});
    return value;
  }
  std::vector<int64_t> shape = variable.shape.sizes();
  shape.back() *= 3;
  check_stored(stored, shape, from);
  return value_of(variable, third_of(stored, *theirs.third).tensor, false, from);
}

/// Returns a token of tokenizer_config.json: a text, or an object with one.
std::optional<std::string> special_token(const HuggingFaceJson& json, const char* key) {
  if (!json.has(key)) return std::nullopt;
  const nlohmann::json& given = json.at(key);
  const nlohmann::json token = given.is_object() ? given.value("content", nlohmann::json()) : given;
  if (!token.is_string()) json.fail(fmt::format("`{}` is {}, no token", key, given.dump()));
  return token.get<std::string>();
}

/// True if each turn of a chat begins with the token: then it stands in the middle of texts, too.
bool begins_turns(const std::string& from, const HuggingFaceJson& json, const std::string& token) {
  const std::string file = from + "/" + kChatTemplate;
  const std::string chat = fs::exists(file)            ? read_text_file(file)
                           : json.has("chat_template") ? json.at("chat_template").dump()
                                                       : "";
  const size_t first = chat.find(token);
  return first != std::string::npos && chat.find(token, first + token.size()) != std::string::npos;
}

/// Returns the token of an id. Throws Error (kCheckpoint) for an id without one.
std::string token_of(const TokenizerIds& tokens, int32_t id, const std::string& from) {
  const std::optional<std::string> token = tokens.token(id);
  if (!token)
    throw Error(ErrorKind::kCheckpoint, fmt::format("{}/{} has no token with the id {}", from, kTokens, id),
                "config.json and this file are not of one model");
  return *token;
}

/// The value of `data.vocabulary`.
std::string vocabulary_text(const std::string& path, const std::optional<std::string>& begin,
                            const std::string& end, int64_t size) {
  return fmt::format("{{type: hugging_face, path: {}, begin: {}, end: {}, size: {}}}", quoted(path),
                     begin ? quoted(*begin) : "null", quoted(end), size);
}

/// Settles which tokens begin and end a text, and returns the value of `data.vocabulary`. Files to copy and notes are added to
/// `import`.
std::string settle_vocabulary(const std::string& from, const ImportTarget& target, CausalLmConfig& lm,
                              HuggingFaceImport& import) {
  const HuggingFaceJson json = tokenizer_config_of(from);
  std::optional<std::string> begin = special_token(json, "bos_token"), end = special_token(json, "eos_token");
  const std::string file = from + "/" + kTokens;
  std::optional<TokenizerIds> tokens;
  if (fs::exists(file)) tokens.emplace(file);
  if (tokens) {
    for (const std::string& token : tokens->drop_added_from(lm.vocab_size))
      import.notes.push_back(
          fmt::format("`{}` of {} has no row in the embedding: it is plain text", printable(token), kTokens));
  }
  if (tokens && tokens->size() > lm.vocab_size)
    throw Error(ErrorKind::kCheckpoint, fmt::format("{} has {} tokens, and the embedding only {} rows", file,
                                                    tokens->size(), lm.vocab_size));
  if (tokens && end) {  // that of a chat model ends a turn, and comes before what config.json says
    lm.end = tokens->id(*end);
    if (!lm.end) json.fail(fmt::format("`eos_token` {} is no token of {}", *end, kTokens));
  }
  if (!lm.end)
    throw Error(ErrorKind::kCheckpoint,
                fmt::format("{}/config.json does not say which token ends a text", from),
                "`eos_token_id`, or `eos_token` in tokenizer_config.json");
  if (lm.begin == lm.end) lm.begin.reset();
  if (tokens) {
    end = token_of(*tokens, *lm.end, from);
    if (lm.begin) begin = token_of(*tokens, *lm.begin, from);
    if (lm.begin && begins_turns(from, json, *begin)) lm.begin.reset();
  }
  lm.predicts_padding = lm.begin.has_value();
  const std::string path = vocabulary_path(from, kTokens, target, import);
  if (!tokens)
    import.notes.push_back(
        fmt::format("in Python, `AutoTokenizer.from_pretrained(\"{0}\").save_pretrained(\"{0}\")` writes {1}",
                    from, kTokens));
  for (const char* name : {kTokenizerConfig, kChatTemplate}) {
    if (const std::string other = from + "/" + name; !target.is_file && fs::exists(other))
      import.files.emplace_back(name, read_text_file(other));
  }
  if (!lm.begin) begin.reset();
  // Without files names stand for the ids of config.json.
  if (lm.begin && !begin) begin = fmt::format("id {}", *lm.begin);
  return vocabulary_text(path, begin, end.value_or(fmt::format("id {}", *lm.end)), lm.vocab_size);
}

/// Returns what the ids of a vocabulary are in its file. Throws Error (kConfig) at `mark`.
FileIds file_ids_in(const HuggingFaceOptions& vocabulary, const Mark& mark) {
  const std::string& path = vocabulary.path.text;
  if (!fs::exists(path))
    throw Error(ErrorKind::kConfig, mark,
                fmt::format("there is no {}, which says what ids the model has in Hugging Face form", path),
                "the tokenizer.json of the model, as `data.vocabulary.path`");
  TokenizerIds tokens(path);
  if (vocabulary.size) tokens.drop_added_from(*vocabulary.size);
  const auto id_of = [&](const std::string& token) {
    const std::optional<int32_t> id = tokens.id(token);
    if (!id)
      throw Error(ErrorKind::kConfig, mark, fmt::format("{} has no token {}", path, token),
                  "one of its tokens");
    return *id;
  };
  FileIds ids{.size = vocabulary.size.value_or(tokens.size()), .begin = {}, .end = id_of(vocabulary.end)};
  if (vocabulary.begin) ids.begin = id_of(*vocabulary.begin);
  if (tokens.size() > ids.size)
    throw Error(ErrorKind::kConfig, mark,
                fmt::format("{} has {} tokens, and `size` is {}", path, tokens.size(), ids.size),
                fmt::format("`size: {}`, or more", tokens.size()));
  if (ids.begin == ids.end)
    throw Error(ErrorKind::kConfig, mark, fmt::format("{} both begins and ends texts", vocabulary.end),
                "`begin: null`");
  return ids;
}

/// Returns what the rows of the embedding are in the file, and sets begin, end and vocab_size. Rows beyond the ids of the
/// vocabulary stay behind all others.
std::vector<int32_t> settle_ids(const FileIds& ids, int64_t rows, CausalLmConfig& lm) {
  std::vector<int32_t> file_ids = file_ids_of(ids);
  if (std::ssize(file_ids) > rows)
    throw Error(ErrorKind::kCheckpoint,
                fmt::format("the vocabulary has {} ids, and the embedding {} rows", file_ids.size(), rows));
  for (int64_t id = ids.size; std::ssize(file_ids) < rows; ++id) file_ids.push_back(static_cast<int32_t>(id));
  lm.begin = ids.begin;
  lm.end = ids.end;
  lm.vocab_size = ids.begin ? rows : rows - 1;
  return file_ids;
}

/// Puts a tensor into a third of the columns of `whole`, which has the same rows.
void put_third(const WrittenTensor& part, int64_t third, WrittenTensor& whole) {
  const auto width = static_cast<size_t>(part.shape.back());
  for (size_t row = 0; row < part.value.size() / width; ++row)
    std::copy_n(&part.value[row * width], width,
                &whole.value[(3 * row + static_cast<size_t>(third)) * width]);
}

/// Writes all weights. There is one copy of them beside `model`.
void write_causal_lm(const ModelWeights& model, const CausalLmConfig& lm,
                     const std::vector<int32_t>& file_ids, const std::string& directory) {
  std::vector<WrittenTensor> tensors;
  for (const ModelWeight& weight : model.weights) {
    const std::optional<CausalLmTensor> theirs = causal_lm_tensor(weight.name, lm);
    MTF_CHECK(theirs, "the model has no variable {}", weight.name);
    if (theirs->experts) {
      std::ranges::move(export_experts(weight, *theirs->experts), std::back_inserter(tensors));
      continue;
    }
    WrittenTensor tensor = written_tensor(weight, *theirs);
    if (theirs->has_row_of_each_id) order_rows(tensor, file_ids, lm.vocab_size);
    if (theirs->is_less_one) add(-1, tensor.value);
    if (!theirs->third) {
      tensors.push_back(std::move(tensor));
      continue;
    }
    auto whole = std::ranges::find(tensors, theirs->name, &WrittenTensor::name);
    if (whole == tensors.end()) {
      whole = tensors.insert(whole, {tensor.name, tensor.shape, std::vector<float>(3 * tensor.value.size())});
      whole->shape.back() *= 3;
    }
    put_third(tensor, *theirs->third, *whole);
  }
  write_tensors(tensors, directory);
}

/// The vocabulary of the texts, if it is one of Hugging Face's; otherwise adds a note.
std::optional<HuggingFaceOptions> exported_vocabulary(const Config& config, std::vector<std::string>& notes) {
  if (config.data.vocabulary) {
    const LanguageVocabulary language = by_side(*config.data.vocabulary).targets;
    if (const auto* vocabulary = language.get_if<HuggingFaceOptions>()) return *vocabulary;
  }
  notes.emplace_back(
      "without files of the vocabulary: it is none of Hugging Face's; texts begin with id 0 and end with id "
      "1");
  return std::nullopt;
}

void copy_tokenizer(const HuggingFaceOptions& vocabulary, const std::string& directory) {
  const fs::path file = vocabulary.path.text;
  write_text_file(directory + "/" + kTokens, read_text_file(file.string()));
  for (const char* name : {kTokenizerConfig, kChatTemplate}) {
    if (const fs::path other = file.parent_path() / name; fs::exists(other))
      write_text_file(directory + "/" + name, read_text_file(other.string()));
  }
}

/// True if what texts begin with has become another vector than that of the token that ends one.
bool begins_otherwise(const HostTensor& embedding) {
  const std::vector<int64_t> sizes = embedding.shape.sizes();
  const std::span<const std::byte> bytes = embedding.bytes;
  const size_t width = bytes.size() / static_cast<size_t>(sizes[0]);
  return !std::ranges::equal(bytes.first(width), bytes.subspan(width * kEosId, width));
}

/// Returns the tensor of a variable of a block; nullopt: there is none.
std::optional<CausalLmTensor> block_tensor(const std::string& name, const CausalLmConfig& lm) {
  std::vector<std::string> parts = parts_of(name);
  if (parts.size() < 3) return std::nullopt;
  const std::optional<int> block = number_of(parts[0], "block"), layer = number_of(parts[1], "layer");
  if (!block || !layer || *layer >= 2 * lm.pattern()) return std::nullopt;
  if (parts[2] == kLocalAttention) parts[2] = kFullAttention;
  const std::span<const std::string> rest = std::span(parts).subspan(2);
  const TensorNames& inner = block_tensors(lm);
  const auto found = inner.find(fmt::format("layer_{:03}/{}", *layer % 2, fmt::join(rest, "/")));
  if (found == inner.end()) return std::nullopt;
  const std::string scope = fmt::format("{}.{}.", lm.is_gpt2() ? "transformer.h" : "model.layers",
                                        *block * lm.pattern() + *layer / 2);
  CausalLmTensor tensor = found->second;
  tensor.name = scope + tensor.name;
  if (tensor.experts) {
    tensor.experts->of_each = scope + tensor.experts->of_each;
    tensor.experts->of_all = scope + tensor.experts->of_all;
  }
  return tensor;
}

}  // namespace

std::optional<CausalLmTensor> causal_lm_tensor(const std::string& variable, const CausalLmConfig& lm) {
  if (!variable.starts_with(kScope)) return std::nullopt;
  const std::string name = variable.substr(kScope.size());
  std::optional<CausalLmTensor> tensor;
  const TensorNames& outer = outer_tensors(lm.is_gpt2());
  if (const auto found = outer.find(name); found != outer.end()) {
    tensor = found->second;
  } else {
    tensor = block_tensor(name, lm);
  }
  if (tensor && lm.is_gemma()) tensor->is_less_one = name.ends_with("/scale");
  return tensor;
}

HuggingFaceImport import_causal_lm(const std::string& from, const ImportTarget& target) {
  const std::string config_file = from + "/config.json";
  HuggingFaceImport import;
  CausalLmConfig lm = parse_causal_lm_config(read_text_file(config_file), config_file);
  const HuggingFaceFiles files(from);
  settle_lm_head(files, lm);
  ModelSurroundings around{.vocabulary = {}, .target = target, .source = from};
  around.vocabulary = settle_vocabulary(from, target, lm, import);
  import.model.config = causal_lm_yaml(lm, around);
  if (lm.experts && lm.experts->has_noise)
    import.notes.emplace_back(
        "`router_jitter_noise` is left out: tokens reach experts without noise in training");
  const std::vector<int32_t> file_ids =
      file_ids_of({.size = lm.vocab_size, .begin = lm.begin, .end = *lm.end});
  std::set<std::string> used;
  for (const Variable& variable : ConfigText(import.model.config, from).variables()) {
    const std::optional<CausalLmTensor> theirs = causal_lm_tensor(variable.name, lm);
    MTF_CHECK(theirs, "a language model has the variable {}", variable.name);
    if (theirs->experts) {
      const auto find = [&](const std::string& name) { return find_tensor(files, name); };
      ImportedExperts experts = import_experts(variable, *theirs->experts, find, from);
      used.insert(experts.used.begin(), experts.used.end());
      import.model.weights.push_back({variable.name, std::move(experts.value)});
      continue;
    }
    const std::optional<TensorRows> rows = fused_rows(theirs->name, lm);
    StoredTensor stored = tensor_of(files, rows ? rows->name : theirs->name);
    used.insert(stored.name);
    if (rows) {
      check_stored(stored, {rows->all, lm.hidden}, from);
      stored = rows_of(stored, rows->begin, rows->count);
    }
    import.model.weights.push_back({variable.name, imported(variable, *theirs, stored, lm, file_ids, from)});
  }
  const auto ignored = [&](const std::string& name) {
    return is_buffer(name) || (lm.tied && name == kLmHead);
  };
  files.check_unused(used, ignored, kCausalLm);
  return import;
}

std::vector<std::string> export_causal_lm(const ModelWeights& model, const std::string& from,
                                          const std::string& directory) {
  std::vector<std::string> notes;
  const Config config = ConfigText(model.config, from).load();
  CausalLmConfig lm = causal_lm_of(config);
  const std::string embedding_name = std::string(kScope) + "embedding";
  const auto embedding = std::ranges::find(model.weights, embedding_name, &ModelWeight::name);
  if (embedding == model.weights.end() || embedding->value.shape.rank() != 2)
    throw Error(ErrorKind::kCheckpoint, fmt::format("{}: there is no table `{}`", from, embedding_name));
  const std::optional<HuggingFaceOptions> vocabulary = exported_vocabulary(config, notes);
  const int64_t rows = embedding->value.shape[0].size;
  const FileIds ids = vocabulary ? file_ids_in(*vocabulary, config.mark("data.vocabulary"))
                                 : FileIds{.size = rows, .begin = kPadId, .end = kEosId};
  const std::vector<int32_t> file_ids = settle_ids(ids, rows, lm);
  if (lm.begin && !lm.predicts_padding)
    throw Error(ErrorKind::kConfig, config.mark("model"),
                "the token that begins a text has no probability, which transformers cannot say",
                "`predict_padding: true`, or `data.vocabulary.begin: null`");
  const ModelSurroundings around{
      .vocabulary =
          vocabulary_text(kTokens, lm.begin ? std::optional("begin") : std::nullopt, "end", lm.vocab_size),
      .target = {from},
      .source = from};
  check_weights(model, causal_lm_yaml(lm, around), from);
  write_causal_lm(model, lm, file_ids, directory);
  write_text_file(directory + "/config.json", causal_lm_json(lm));
  const nlohmann::ordered_json generation = {{"bos_token_id", lm.begin.value_or(*lm.end)},
                                             {"eos_token_id", *lm.end}};
  write_text_file(directory + "/generation_config.json", generation.dump(2) + "\n");
  if (vocabulary) copy_tokenizer(*vocabulary, directory);
  if (!lm.begin && begins_otherwise(embedding->value))
    notes.push_back(fmt::format(
        "row 0 of the embedding, with which texts begin, is left out: transformers begins them with `{}`, "
        "whose row has become another one",
        vocabulary->end));
  return notes;
}

}  // namespace mtf
