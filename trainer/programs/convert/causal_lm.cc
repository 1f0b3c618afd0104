#include "trainer/programs/convert/causal_lm.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
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
#include "trainer/programs/convert/generation.h"
#include "trainer/programs/convert/row_order.h"
#include "trainer/programs/convert/tokenizer_files.h"

namespace mtf {
namespace {

constexpr std::string_view kCausalLm = "language model";

/// The softmax weights in a file; newer ones of a GPT-NeoX may have the name that others have.
constexpr const char *kLmHead = "lm_head.weight", *kNeoxHead = "embed_out.weight";

/// The file of a model without a head lacks the first part of the names. Files with one tensor for all experts give the layer
/// of a Mixtral the name that others have.
const StoredTensor* find_tensor(const HuggingFaceFiles& files, const std::string& name) {
  std::string as_in_others = name;
  replace_all(as_in_others, ".block_sparse_moe.", ".mlp.");
  for (const std::string& known : {name, as_in_others}) {
    const StoredTensor* tensor = files.find(known);
    if (!tensor && known != kLmHead) tensor = files.find(known.substr(known.find('.') + 1));
    if (tensor) return tensor;
  }
  return name == kNeoxHead ? files.find(kLmHead) : nullptr;
}

const StoredTensor& tensor_of(const HuggingFaceFiles& files, const std::string& name) {
  const StoredTensor* tensor = find_tensor(files, name);
  return tensor ? *tensor : files.at(name);
}

/// Buffers of masks and angles, which old files have.
bool is_buffer(const std::string& name) {
  const auto is_of = [&](const std::string& attention) {
    return name.ends_with(attention + ".bias") || name.ends_with(attention + ".masked_bias");
  };
  return is_of(".attn") || is_of(".attention") || name.ends_with(".rotary_emb.inv_freq");
}

/// Softmax weights that are the embedding are not stored, or twice.
void settle_lm_head(const HuggingFaceFiles& files, CausalLmConfig& lm) {
  const auto name_of = [&](const char* variable) {
    return causal_lm_tensor(std::string(kLmScope) + variable, lm)->name;
  };
  const StoredTensor* softmax = find_tensor(files, name_of("logits/kernel"));
  if (!softmax || !lm.tied) return;
  lm.tied = std::ranges::equal(softmax->data, tensor_of(files, name_of("embedding")).data);
}

/// Adds a number to all values.
void add(float number, std::span<float> values) {
  for (float& value : values) value += number;
}

/// Returns the value of a variable from its tensor.
HostTensor imported(const Variable& variable, const CausalLmTensor& theirs, const StoredTensor& stored,
                    const CausalLmConfig& lm, const std::vector<int32_t>& file_ids, const std::string& from) {
  std::vector<int64_t> shape = variable.shape.sizes();
  if (theirs.transposed) std::ranges::reverse(shape);
  if (theirs.has_row_of_each_id) {
    shape[0] = lm.vocab_size;
    check_stored(stored, shape, from);
    const bool is_embedding = shape.size() == 2 && !theirs.transposed;
    const auto rows = rows_by_id(stored, file_ids, is_embedding ? lm.end : std::nullopt);
    return value_of(variable, rows.tensor, theirs.transposed, from);
  }
  if (theirs.rows) {
    shape[0] = theirs.rows->count;
    check_stored(stored, shape, from);
    return value_of(variable, rows_by_id(stored, theirs.rows->of_each, {}).tensor, theirs.transposed, from);
  }
  if (!theirs.part) {
    HostTensor value = value_of(variable, stored, theirs.transposed, from);
    if (theirs.is_less_one) add(1, {value.data<float>(), static_cast<size_t>(value.shape.size())});
    return value;
  }
  return value_of_part(variable, stored, *theirs.part, theirs.transposed, from);
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
    if (theirs->rows) order_rows(tensor, theirs->rows->of_each, theirs->rows->count);
    if (theirs->is_less_one) add(-1, tensor.value);
    if (!theirs->part) {
      tensors.push_back(std::move(tensor));
      continue;
    }
    add_part(tensor, output_axis(tensor.shape, theirs->transposed), *theirs->part, tensors);
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
  around.infer = infer_text(read_generation(from, lm.end, import.notes), {.most = lm.max_positions},
                            tokens_of(from), import.notes);
  import.model.config = causal_lm_yaml(lm, around);
  if (lm.experts && lm.experts->has_noise)
    import.notes.emplace_back(
        "`router_jitter_noise` is left out: tokens reach experts without noise in training");
  std::ranges::copy(lm.notes, std::back_inserter(import.notes));
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
    const StoredTensor& stored = tensor_of(files, theirs->name);
    used.insert(stored.name);
    import.model.weights.push_back({variable.name, imported(variable, *theirs, stored, lm, file_ids, from)});
  }
  const auto ignored = [&](const std::string& name) {
    return is_buffer(name) || (lm.tied && (name == kLmHead || name == kNeoxHead));
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
  nlohmann::ordered_json generation = {{"bos_token_id", lm.begin.value_or(*lm.end)},
                                       {"eos_token_id", *lm.end}};
  if (config.root.find("infer"))
    add_generation(generation_of(config.infer, {.most = lm.max_positions}, written_token_ids(config), notes),
                   generation);
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
