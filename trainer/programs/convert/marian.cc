#include "trainer/programs/convert/marian.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include "data/vocabulary/marian_tokens.h"
#include "data/vocabulary/vocabulary.h"
#include "data/vocabulary/vocabulary_options.h"
#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/core/convert_elements.h"
#include "trainer/programs/convert/config_text.h"
#include "trainer/programs/convert/files.h"
#include "trainer/programs/convert/marian_config.h"
#include "trainer/programs/convert/row_order.h"

namespace mtf {
namespace {

namespace fs = std::filesystem;

using Rows = MarianTensor::Rows;

constexpr std::string_view kMarian = "Marian";
constexpr const char *kShared = "model.shared.weight", *kInputs = "model.encoder.embed_tokens.weight",
                     *kTargets = "model.decoder.embed_tokens.weight", *kSoftmaxTensor = "lm_head.weight",
                     *kBias = "final_logits_bias";
constexpr const char *kSource = "source.spm", *kTarget = "target.spm", *kIds = "vocab.json",
                     *kTargetIds = "target_vocab.json";

using MarianTensorNames = std::map<std::string, MarianTensor>;

/// The tensors that do not depend on the block.
const MarianTensorNames& outer_tensors() {
  static const MarianTensorNames names = {{"shared/embedding", {{kShared}, Rows::kTargets}},
                                          {"encoder/embedding", {{kInputs}, Rows::kInputs}},
                                          {"decoder/embedding", {{kTargets}, Rows::kTargets}},
                                          {"decoder/logits/kernel", {{kSoftmaxTensor, true}, Rows::kTargets}},
                                          {"shared/logits/bias", {{kBias}, Rows::kTargets}},
                                          {"decoder/logits/bias", {{kBias}, Rows::kTargets}}};
  return names;
}

/// Returns the name and the form of the tensor behind that of the layer, for the variable behind "layer_000/".
std::optional<HuggingFaceTensor> tensor_of_layer(const std::string& variable, bool is_attention) {
  static const std::map<std::string, HuggingFaceTensor> attention = {
      {"q", {"q_proj.weight", true}},   {"q_bias", {"q_proj.bias"}},    {"k", {"k_proj.weight", true}},
      {"k_bias", {"k_proj.bias"}},      {"v", {"v_proj.weight", true}}, {"v_bias", {"v_proj.bias"}},
      {"o", {"out_proj.weight", true}}, {"o_bias", {"out_proj.bias"}}};
  static const std::map<std::string, HuggingFaceTensor> feed_forward = {{"wi/kernel", {"fc1.weight", true}},
                                                                        {"wi/bias", {"fc1.bias"}},
                                                                        {"wo/kernel", {"fc2.weight", true}},
                                                                        {"wo/bias", {"fc2.bias"}}};
  const auto& names = is_attention ? attention : feed_forward;
  const auto found = names.find(variable);
  return found == names.end() ? std::nullopt : std::optional(found->second);
}

/// Files of a bare MarianModel lack the first part of the names.
const StoredTensor* find(const HuggingFaceFiles& files, const std::string& name) {
  const StoredTensor* tensor = files.find(name);
  constexpr std::string_view prefix = "model.";
  return tensor || !name.starts_with(prefix) ? tensor : files.find(name.substr(prefix.size()));
}

/// Returns the first of these tensors that is there.
const StoredTensor& first_of(const HuggingFaceFiles& files, const std::vector<const char*>& names) {
  for (const char* name : names) {
    if (const StoredTensor* tensor = find(files, name)) return *tensor;
  }
  return files.at(names[0]);
}

bool are_equal(const StoredTensor& a, const StoredTensor& b) {
  return a.shape == b.shape && std::ranges::equal(a.data, b.data);
}

/// The tables of a file. Those that are one are stored once or several times, under any of their names.
struct Tables {
  const StoredTensor* inputs;
  const StoredTensor* targets;
  const StoredTensor* softmax;  ///< null: that of the targets
};

/// Finds the tables, and sets what they share: what config.json says, unless the tensors differ.
Tables settle_tables(const HuggingFaceFiles& files, MarianConfig& marian) {
  Tables tables{};
  if (marian.shared_embedding) {
    tables.inputs = &first_of(files, {kInputs, kShared, kTargets, kSoftmaxTensor});
    tables.targets = &first_of(files, {kTargets, kShared, kInputs, kSoftmaxTensor});
    marian.shared_embedding = are_equal(*tables.inputs, *tables.targets);
  } else {
    tables.inputs = &first_of(files, {kInputs});
    tables.targets =
        marian.tied ? &first_of(files, {kTargets, kSoftmaxTensor}) : &first_of(files, {kTargets});
  }
  tables.softmax = files.find(kSoftmaxTensor);
  if (!marian.tied && !tables.softmax) files.at(kSoftmaxTensor);
  marian.tied = marian.tied && (!tables.softmax || are_equal(*tables.softmax, *tables.targets));
  return tables;
}

/// Throws Error (kCheckpoint) unless stored positions are the sinusoids that transformers computes where they are absent.
void check_positions(const HuggingFaceFiles& files, const std::string& side, int64_t d_model,
                     const std::string& from) {
  const StoredTensor* stored = find(files, fmt::format("model.{}.embed_positions.weight", side));
  if (!stored) return;
  const int64_t length = stored->shape.empty() ? 0 : stored->shape[0], half = d_model / 2;
  check_stored(*stored, {length, d_model}, from);
  std::vector<float> values(static_cast<size_t>(length * d_model));
  convert_elements(stored->data.data(), stored->dtype, reinterpret_cast<std::byte*>(values.data()),
                   DType::kFloat32, length * d_model);
  constexpr double tolerance = 1e-2;  // values may be rounded to bfloat16
  for (int64_t i = 0; i < length * d_model; ++i) {
    const int64_t place = i / d_model, entry = i % d_model;
    const double power = -static_cast<double>(entry % half) / static_cast<double>(half);
    const double angle = static_cast<double>(place) * std::pow(1e4, power);
    const double right = entry < half ? std::sin(angle) : std::cos(angle);
    if (std::abs(values[static_cast<size_t>(i)] - right) > tolerance)
      throw Error(ErrorKind::kCheckpoint,
                  fmt::format("{}: row {} of tensor `{}` has other values than the sinusoids of a Marian",
                              from, place, stored->name));
  }
}

/// What the ids here are in the file.
struct MarianIds {
  std::vector<int32_t> inputs, targets;

  const std::vector<int32_t>& of(Rows rows) const { return rows == Rows::kInputs ? inputs : targets; }
};

/// Returns what the ids of one side are. Those of the targets must be the ones of config.json.
FileIds ids_of(const std::string& file, int64_t rows, bool is_decoded, const MarianConfig& marian) {
  if (!fs::exists(file)) return {.size = rows, .begin = marian.padding, .end = marian.end};
  const MarianTokens tokens = read_marian_tokens(file);
  if (tokens.size() > rows)
    throw Error(ErrorKind::kCheckpoint,
                fmt::format("{} has {} tokens, and the embedding only {} rows", file, tokens.size(), rows));
  const FileIds ids = tokens.file_ids(rows);
  if (is_decoded && (ids.begin != marian.padding || ids.end != marian.end))
    throw Error(ErrorKind::kCheckpoint,
                fmt::format("{}: `<pad>` is {} and `</s>` {}, and config.json says {} and {}", file,
                            *ids.begin, ids.end, marian.padding, marian.end),
                "config.json and this file are not of one model");
  return ids;
}

/// Settles the ids of both sides, and returns the value of `data.vocabulary`. Files to copy and notes are added to `import`.
std::string settle_vocabulary(const std::string& from, const ImportTarget& target, const MarianConfig& marian,
                              MarianIds& ids, HuggingFaceImport& import) {
  const bool are_apart = tokenizer_config_of(from).flag("separate_vocabs", false);
  const auto path = [&](const char* name) { return quoted(vocabulary_path(from, name, target, import)); };
  const std::string of_inputs = path(kIds), of_targets = are_apart ? path(kTargetIds) : of_inputs;
  const auto file_ids = [&](const char* name, int64_t rows, bool is_decoded) {
    return file_ids_of(ids_of(from + "/" + name, rows, is_decoded, marian));
  };
  ids.inputs = file_ids(kIds, marian.vocab_size, marian.shared_embedding);
  ids.targets = file_ids(are_apart ? kTargetIds : kIds, marian.decoder_vocab_size, true);
  const std::string tokenizer = from + "/" + kTokenizerConfig;
  if (!target.is_file && fs::exists(tokenizer))
    import.files.emplace_back(kTokenizerConfig, read_text_file(tokenizer));
  const auto side = [](const std::string& model, const std::string& json, int64_t size) {
    return fmt::format("{{type: marian, path: {}, ids: {}, size: {}}}", model, json, size);
  };
  return fmt::format("{{inputs: {},\n               targets: {}}}",
                     side(path(kSource), of_inputs, marian.vocab_size),
                     side(path(kTarget), of_targets, marian.decoder_vocab_size));
}

/// Returns the value of a variable from its tensor. A bias is stored as a matrix of one row.
HostTensor imported(const Variable& variable, const MarianTensor& theirs, const StoredTensor& stored,
                    const MarianIds& ids, int64_t d_model, const std::string& from) {
  if (theirs.rows == Rows::kNone) return value_of(variable, stored, theirs.transposed, from);
  const std::vector<int32_t>& file_ids = ids.of(theirs.rows);
  const bool is_bias = theirs.name == kBias;
  StoredTensor table = stored;
  if (is_bias) {
    check_stored(stored, {1, std::ssize(file_ids)}, from);
    table.shape = {std::ssize(file_ids), 1};
  } else {
    check_stored(stored, {std::ssize(file_ids), d_model}, from);
  }
  RearrangedTensor rows = rows_by_id(table, file_ids, std::nullopt);
  if (is_bias) rows.tensor.shape = {std::ssize(file_ids)};
  return value_of(variable, rows.tensor, theirs.transposed, from);
}

/// Returns what the ids of a side of a run are in its file; nothing: it has no such vocabulary. Throws Error (kConfig) at
/// `mark`.
std::optional<FileIds> exported_ids(const LanguageVocabulary& language, const Mark& mark) {
  const auto* vocabulary = language.get_if<MarianOptions>();
  if (!vocabulary) return std::nullopt;
  if (!fs::exists(vocabulary->ids.text))
    throw Error(ErrorKind::kConfig, mark,
                fmt::format("there is no {}, which says what ids the model has in Hugging Face form",
                            vocabulary->ids.text),
                "the vocab.json of the model, as `ids` of `data.vocabulary`");
  return read_marian_tokens(vocabulary->ids.text).file_ids(vocabulary->size);
}

void copy_file(const std::string& file, const std::string& directory, const char* name,
               std::vector<std::string>& notes) {
  if (fs::exists(file)) return write_text_file(directory + "/" + name, read_text_file(file));
  notes.push_back(fmt::format("without {}: there is no {}", name, file));
}

/// Writes the files of the tokeniser.
void copy_tokenizer(const MarianOptions& inputs, const MarianOptions& targets, const std::string& directory,
                    std::vector<std::string>& notes) {
  copy_file(inputs.path.text, directory, kSource, notes);
  copy_file(targets.path.text, directory, kTarget, notes);
  copy_file(inputs.ids.text, directory, kIds, notes);
  const bool are_apart = inputs.ids.text != targets.ids.text;
  if (are_apart) copy_file(targets.ids.text, directory, kTargetIds, notes);
  const fs::path tokenizer = fs::path(inputs.ids.text).parent_path() / kTokenizerConfig;
  if (fs::exists(tokenizer)) return copy_file(tokenizer.string(), directory, kTokenizerConfig, notes);
  const nlohmann::ordered_json json = {{"tokenizer_class", "MarianTokenizer"},
                                       {"separate_vocabs", are_apart}};
  write_text_file(directory + "/" + kTokenizerConfig, json.dump(2) + "\n");
}

/// Settles what the ids of a run are in Hugging Face form, and writes the files of the tokeniser.
MarianIds export_vocabulary(const Config& config, const std::string& directory, MarianConfig& marian,
                            std::vector<std::string>& notes) {
  const auto own = [](int64_t rows) { return FileIds{.size = rows, .begin = kPadId, .end = kEosId}; };
  FileIds inputs = own(marian.vocab_size), targets = own(marian.decoder_vocab_size);
  const Mark mark = config.mark("data.vocabulary");
  std::optional<FileIds> of_inputs, of_targets;
  if (config.data.vocabulary) {
    const BySide<LanguageVocabulary> languages = by_side(*config.data.vocabulary);
    of_inputs = exported_ids(languages.inputs, mark);
    of_targets = exported_ids(languages.targets, mark);
    if (of_inputs && of_targets)
      copy_tokenizer(*languages.inputs.get_if<MarianOptions>(), *languages.targets.get_if<MarianOptions>(),
                     directory, notes);
  }
  if (of_inputs && of_targets) {
    inputs = *of_inputs;
    targets = *of_targets;
  } else {
    notes.emplace_back(
        "without files of the vocabulary: it is none of Marian's; texts begin with id 0 and end with id 1");
  }
  const auto file_ids = [](const FileIds& ids, int64_t rows) {
    if (ids.size > rows)
      throw Error(ErrorKind::kCheckpoint,
                  fmt::format("the vocabulary has {} ids, and the embedding {} rows", ids.size, rows));
    return file_ids_of({.size = rows, .begin = ids.begin, .end = ids.end});
  };
  marian.padding = *targets.begin;
  marian.end = targets.end;
  return {file_ids(inputs, marian.vocab_size), file_ids(targets, marian.decoder_vocab_size)};
}

/// Returns the rows of a table. Throws Error (kCheckpoint) if there is none.
int64_t rows_of(const ModelWeights& model, const std::string& table, const std::string& from) {
  const auto found = std::ranges::find(model.weights, table, &ModelWeight::name);
  if (found == model.weights.end() || found->value.shape.rank() != 2)
    throw Error(ErrorKind::kCheckpoint, fmt::format("{}: there is no table `{}`", from, table));
  return found->value.shape[0].size;
}

/// Writes all weights. Tables that are one stand once, or where the softmax has a matrix of its own under each name, since
/// transformers then ties none of them.
void write_marian(const ModelWeights& model, const MarianConfig& marian, const MarianIds& ids,
                  const std::string& from, const std::string& directory) {
  std::vector<WrittenTensor> tensors;
  bool has_bias = false;
  for (const ModelWeight& weight : model.weights) {
    const std::optional<MarianTensor> theirs = marian_tensor(weight.name);
    if (!theirs)
      throw Error(ErrorKind::kCheckpoint,
                  fmt::format("{}: a {} has no variable `{}`", from, kMarian, weight.name));
    WrittenTensor tensor = written_tensor(weight, *theirs);
    const bool is_bias = theirs->name == kBias;
    has_bias = has_bias || is_bias;
    if (is_bias) tensor.shape = {marian.decoder_vocab_size, 1};
    if (theirs->rows != Rows::kNone) {
      const std::vector<int32_t>& file_ids = ids.of(theirs->rows);
      order_rows(tensor, file_ids, std::ssize(file_ids));
    }
    if (is_bias) tensor.shape = {1, marian.decoder_vocab_size};
    if (theirs->name == kShared && !marian.tied) {
      for (const char* name : {kInputs, kTargets}) {
        tensors.push_back(tensor);
        tensors.back().name = name;
      }
    }
    tensors.push_back(std::move(tensor));
  }
  if (!has_bias)
    tensors.push_back({kBias,
                       {1, marian.decoder_vocab_size},
                       std::vector<float>(static_cast<size_t>(marian.decoder_vocab_size))});
  write_tensors(tensors, directory);
}

}  // namespace

std::optional<MarianTensor> marian_tensor(const std::string& variable) {
  if (const auto found = outer_tensors().find(variable); found != outer_tensors().end()) return found->second;
  const std::vector<std::string> parts = parts_of(variable);
  if (parts.size() < 5 || parts.size() > 6) return std::nullopt;
  const std::optional<int> block = number_of(parts[1], "block"), layer = number_of(parts[2], "layer");
  static const std::vector<std::string> encoder = {"SelfAttention", "DenseReluDense"},
                                        decoder = {"SelfAttention", "EncDecAttention", "DenseReluDense"};
  const std::vector<std::string>& kinds = parts[0] == "encoder" ? encoder : decoder;
  if (!block || !layer || (parts[0] != "encoder" && parts[0] != "decoder") || *layer >= std::ssize(kinds))
    return std::nullopt;
  const std::string& kind = kinds[static_cast<size_t>(*layer)];
  const bool is_attention = kind != "DenseReluDense";
  const std::string place = fmt::format("model.{}.layers.{}.", parts[0], *block);
  const std::string attention = kind == "SelfAttention" ? "self_attn" : "encoder_attn";
  if (parts[3] == "layer_norm" && parts.size() == 5) {
    const std::string norm = is_attention ? attention + "_layer_norm" : "final_layer_norm";
    if (parts[4] == "layer_norm_scale") return MarianTensor{{place + norm + ".weight"}};
    if (parts[4] == "layer_norm_bias") return MarianTensor{{place + norm + ".bias"}};
  }
  if (parts[3] != kind) return std::nullopt;
  const std::string rest = parts.size() == 5 ? parts[4] : parts[4] + "/" + parts[5];
  const std::optional<HuggingFaceTensor> tensor = tensor_of_layer(rest, is_attention);
  if (!tensor) return std::nullopt;
  return MarianTensor{{place + (is_attention ? attention + "." : "") + tensor->name, tensor->transposed}};
}

HuggingFaceImport import_marian(const std::string& from, const ImportTarget& target) {
  const std::string config_file = from + "/config.json", generation_file = from + "/generation_config.json";
  HuggingFaceImport import;
  MarianConfig marian = parse_marian_config(read_text_file(config_file), config_file, import.notes);
  const std::string& decoding = fs::exists(generation_file) ? generation_file : config_file;
  parse_marian_generation(read_text_file(decoding), decoding, marian, import.notes);
  const HuggingFaceFiles files(from);
  const Tables tables = settle_tables(files, marian);
  for (const char* side : {"encoder", "decoder"}) check_positions(files, side, marian.d_model, from);
  ModelSurroundings around{.vocabulary = {}, .target = target, .source = from};
  MarianIds ids;
  around.vocabulary = settle_vocabulary(from, target, marian, ids, import);
  import.model.config = marian_yaml(marian, around);
  const std::vector<std::byte> zeros(ids.targets.size() * sizeof(float));
  const StoredTensor no_bias{
      .name = kBias, .dtype = DType::kFloat32, .shape = {1, std::ssize(ids.targets)}, .data = zeros};
  const auto stored_of = [&](const std::string& name) -> const StoredTensor& {
    if (name == kInputs) return *tables.inputs;
    if (name == kShared || name == kTargets) return *tables.targets;
    const StoredTensor* stored = find(files, name);
    if (!stored && name == kBias) return no_bias;
    return stored ? *stored : files.at(name);
  };
  std::set<std::string> used;
  for (const Variable& variable : ConfigText(import.model.config, from).variables()) {
    const std::optional<MarianTensor> theirs = marian_tensor(variable.name);
    MTF_CHECK(theirs, "a Marian has the variable {}", variable.name);
    const StoredTensor& stored = stored_of(theirs->name);
    used.insert(stored.name);
    import.model.weights.push_back(
        {variable.name, imported(variable, *theirs, stored, ids, marian.d_model, from)});
  }
  const auto ignored = [](const std::string& name) {
    return name.ends_with("shared.weight") || name.ends_with(".embed_tokens.weight") ||
           name == kSoftmaxTensor || name.ends_with(".embed_positions.weight");
  };
  files.check_unused(used, ignored, kMarian);
  return import;
}

std::vector<std::string> export_marian(const ModelWeights& model, const std::string& from,
                                       const std::string& directory) {
  std::vector<std::string> notes;
  const Config config = ConfigText(model.config, from).load();
  MarianConfig marian = marian_of(config);
  marian.vocab_size =
      rows_of(model, marian.shared_embedding ? "shared/embedding" : "encoder/embedding", from);
  marian.decoder_vocab_size =
      marian.shared_embedding ? marian.vocab_size : rows_of(model, "decoder/embedding", from);
  const MarianIds ids = export_vocabulary(config, directory, marian, notes);
  const auto side = [](int64_t size) {
    return fmt::format("{{type: marian, path: {}, ids: {}, size: {}}}", kSource, kIds, size);
  };
  const ModelSurroundings around{
      .vocabulary = fmt::format("{{inputs: {}, targets: {}}}", side(marian.vocab_size),
                                side(marian.decoder_vocab_size)),
      .target = {from},
      .source = from};
  // A model without a bias is one with zeros.
  const auto is_absent = [&](const std::string& variable) {
    const std::optional<MarianTensor> theirs = marian_tensor(variable);
    return theirs && theirs->name == kBias &&
           std::ranges::find(model.weights, variable, &ModelWeight::name) == model.weights.end();
  };
  check_weights(model, marian_yaml(marian, around), from, is_absent);
  write_marian(model, marian, ids, from, directory);
  write_text_file(directory + "/config.json", marian_json(marian));
  write_text_file(directory + "/generation_config.json", marian_generation_json(marian));
  return notes;
}

}  // namespace mtf
