#include "trainer/programs/convert/causal_lm.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <span>

#include "data/vocabulary/renumbering.h"
#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/base/replace_all.h"
#include "trainer/programs/convert/causal_lm_tensors.h"
#include "trainer/programs/convert/causal_lm_vocabulary.h"
#include "trainer/programs/convert/config_text.h"
#include "trainer/programs/convert/files.h"
#include "trainer/programs/convert/row_order.h"

namespace mtf {
namespace {

constexpr std::string_view kCausalLm = "language model";

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
  const StoredTensor* softmax = files.find(std::string(kLmHead));
  if (!softmax || !lm.tied) return;
  const std::string embedding = causal_lm_tensor(std::string(kLmScope) + "embedding", lm)->name;
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

/// True if what texts begin with has become another vector than that of the token that ends one.
bool begins_otherwise(const HostTensor& embedding) {
  const std::vector<int64_t> sizes = embedding.shape.sizes();
  const std::span<const std::byte> bytes = embedding.bytes;
  const size_t width = bytes.size() / static_cast<size_t>(sizes[0]);
  return !std::ranges::equal(bytes.first(width), bytes.subspan(width * kEosId, width));
}

}  // namespace

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
  const std::string embedding_name = std::string(kLmScope) + "embedding";
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
          vocabulary_text(kTokenizer, lm.begin ? std::optional("begin") : std::nullopt, "end", lm.vocab_size),
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
