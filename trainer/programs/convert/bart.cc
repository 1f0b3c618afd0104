#include "trainer/programs/convert/bart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/base/with_article.h"
#include "engine/core/convert_elements.h"
#include "trainer/programs/convert/bart_vocabulary.h"
#include "trainer/programs/convert/config_text.h"
#include "trainer/programs/convert/files.h"
#include "trainer/programs/convert/row_order.h"

namespace mtf {
namespace {

namespace fs = std::filesystem;

using Rows = BartTensor::Rows;

constexpr const char *kShared = "model.shared.weight", *kInputs = "model.encoder.embed_tokens.weight",
                     *kTargets = "model.decoder.embed_tokens.weight", *kSoftmaxTensor = "lm_head.weight",
                     *kBias = "final_logits_bias";
using BartTensorNames = std::map<std::string, BartTensor>;

/// The tensors that do not depend on the block and the kind.
const BartTensorNames& outer_tensors() {
  static const BartTensorNames names = {{"shared/embedding", {{kShared}, Rows::kTargets}},
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

/// The tables of a file. Those that are one are stored once or several times, under any of their names.
struct Tables {
  const StoredTensor* inputs;
  const StoredTensor* targets;
  const StoredTensor* softmax;  ///< null: that of the targets
};

/// Finds the tables, and sets what they share: what config.json says, unless the tensors differ. Throws Error (kCheckpoint).
Tables settle_tables(const HuggingFaceFiles& files, BartConfig& bart, const std::string& from) {
  Tables tables{};
  if (bart.shared_embedding) {
    tables.inputs = &first_of(files, {kInputs, kShared, kTargets, kSoftmaxTensor});
    tables.targets = &first_of(files, {kTargets, kShared, kInputs, kSoftmaxTensor});
    bart.shared_embedding = are_equal(*tables.inputs, *tables.targets);
    if (!bart.shared_embedding && bart.kind != BartKind::kMarian)
      throw Error(ErrorKind::kCheckpoint,
                  fmt::format("{}: `{}` and `{}` are other tables, and {} has one", from, tables.inputs->name,
                              tables.targets->name, with_article(form_of(bart.kind).name)));
  } else {
    tables.inputs = &first_of(files, {kInputs});
    tables.targets = bart.tied ? &first_of(files, {kTargets, kSoftmaxTensor}) : &first_of(files, {kTargets});
  }
  tables.softmax = files.find(kSoftmaxTensor);
  if (!bart.tied && !tables.softmax) files.at(kSoftmaxTensor);
  bart.tied = bart.tied && (!tables.softmax || are_equal(*tables.softmax, *tables.targets));
  return tables;
}

/// Throws Error (kCheckpoint) unless stored positions are the sinusoids that transformers computes where they are absent.
void check_sinusoids(const HuggingFaceFiles& files, const std::string& side, const BartConfig& bart,
                     const std::string& from) {
  const BartForm& form = form_of(bart.kind);
  const StoredTensor* stored = nullptr;
  for (const char* name : {"weight", "weights"}) {
    if (!stored) stored = find(files, fmt::format("model.{}.embed_positions.{}", side, name));
  }
  if (!stored) return;
  const int64_t d_model = bart.d_model;
  const int64_t length = stored->shape.empty() ? 0 : stored->shape[0], half = d_model / 2;
  const int64_t steps =
      form.positions == Positions::kSinusoidHuggingFace ? half : std::max<int64_t>(half - 1, 1);
  check_stored(*stored, {length, d_model}, from);
  std::vector<float> values(static_cast<size_t>(length * d_model));
  convert_elements(stored->data.data(), stored->dtype, reinterpret_cast<std::byte*>(values.data()),
                   DType::kFloat32, length * d_model);
  constexpr double tolerance = 1e-2;  // values may be rounded to bfloat16
  for (int64_t i = form.first_position * d_model; i < length * d_model; ++i) {
    const int64_t place = i / d_model, entry = i % d_model;
    const double power = -static_cast<double>(entry % half) / static_cast<double>(steps);
    const double angle = static_cast<double>(place) * std::pow(1e4, power);
    const double right = entry < half ? std::sin(angle) : std::cos(angle);
    if (std::abs(values[static_cast<size_t>(i)] - right) > tolerance)
      throw Error(ErrorKind::kCheckpoint,
                  fmt::format("{}: row {} of tensor `{}` has other values than the sinusoids of {}", from,
                              place, stored->name, with_article(form.name)));
  }
}

const std::vector<int32_t>& ids_of(const BartIds& ids, Rows rows) {
  return rows == Rows::kInputs ? ids.inputs : ids.targets;
}

/// Returns the value of a variable from its tensor. A bias is stored as a matrix of one row.
HostTensor imported(const Variable& variable, const BartTensor& theirs, const StoredTensor& stored,
                    const BartIds& ids, int64_t d_model, const std::string& from) {
  if (theirs.rows == Rows::kNone) return value_of(variable, stored, theirs.transposed, from);
  const std::vector<int32_t>& file_ids = ids_of(ids, theirs.rows);
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

/// Returns the rows of a table. Throws Error (kCheckpoint) if there is none.
int64_t rows_of(const ModelWeights& model, const std::string& table, const std::string& from) {
  const auto found = std::ranges::find(model.weights, table, &ModelWeight::name);
  if (found == model.weights.end() || found->value.shape.rank() != 2)
    throw Error(ErrorKind::kCheckpoint, fmt::format("{}: there is no table `{}`", from, table));
  return found->value.shape[0].size;
}

/// Writes all weights. Tables that are one stand once, or where the softmax has a matrix of its own under each name, since
/// transformers then ties none of them.
void write_bart(const ModelWeights& model, const BartConfig& bart, const BartIds& ids,
                const std::string& from, const std::string& directory) {
  std::vector<WrittenTensor> tensors;
  bool has_bias = false;
  for (const ModelWeight& weight : model.weights) {
    const std::optional<BartTensor> theirs = bart_tensor(weight.name, bart.kind);
    if (!theirs)
      throw Error(ErrorKind::kCheckpoint, fmt::format("{}: {} has no variable `{}`", from,
                                                      with_article(form_of(bart.kind).name), weight.name));
    WrittenTensor tensor = written_tensor(weight, *theirs);
    const bool is_bias = theirs->name == kBias;
    has_bias = has_bias || is_bias;
    if (is_bias) tensor.shape = {bart.decoder_vocab_size, 1};
    if (theirs->rows != Rows::kNone) {
      const std::vector<int32_t>& file_ids = ids_of(ids, theirs->rows);
      order_rows(tensor, file_ids, std::ssize(file_ids));
    }
    if (is_bias) tensor.shape = {1, bart.decoder_vocab_size};
    if (theirs->name == kShared && !bart.tied) {
      for (const char* name : {kInputs, kTargets}) {
        tensors.push_back(tensor);
        tensors.back().name = name;
      }
    }
    tensors.push_back(std::move(tensor));
  }
  if (!has_bias && form_of(bart.kind).has_bias)
    tensors.push_back({kBias,
                       {1, bart.decoder_vocab_size},
                       std::vector<float>(static_cast<size_t>(bart.decoder_vocab_size))});
  write_tensors(tensors, directory);
}

/// The tensors of one side beside its blocks, for the variable behind "encoder/" or "decoder/".
std::optional<std::string> tensor_of_side(const std::string& variable, BartKind kind) {
  const BartForm& form = form_of(kind);
  if (variable == "positional_embedding" && form.positions == Positions::kLearned)
    return "embed_positions.weight";
  const size_t slash = variable.find('/');
  if (slash == std::string::npos) return std::nullopt;
  const std::string norm = variable.substr(0, slash), entry = variable.substr(slash + 1);
  // The last norm has the name without a number where both stand.
  const std::string of_embedding = form.norms_first ? "layer_norm_1" : "layer_norm";
  std::string name;
  if (form.norms_first && norm == "layer_norm") name = "layer_norm";
  if (form.norms_embedding && norm == of_embedding) name = "layernorm_embedding";
  if (name.empty()) return std::nullopt;
  if (entry == "layer_norm_scale") return name + ".weight";
  if (entry == "layer_norm_bias") return name + ".bias";
  return std::nullopt;
}

std::vector<std::string> export_any(const ModelWeights& model, const std::string& from,
                                    const std::string& directory, bool is_marian) {
  std::vector<std::string> notes;
  const Config config = ConfigText(model.config, from).load();
  BartConfig bart = bart_of(config, is_marian);
  bart.vocab_size = rows_of(model, bart.shared_embedding ? "shared/embedding" : "encoder/embedding", from);
  bart.decoder_vocab_size =
      bart.shared_embedding ? bart.vocab_size : rows_of(model, "decoder/embedding", from);
  const BartIds ids = export_bart_vocabulary(config, directory, bart, notes);
  bart.generation = generation_of(config.infer, generation_lengths(bart), written_token_ids(config), notes);
  const ModelSurroundings around{.vocabulary = vocabulary_of_sizes(bart.vocab_size, bart.decoder_vocab_size),
                                 .target = {from},
                                 .source = from};
  // A model without a bias is one with zeros.
  const auto is_absent = [&](const std::string& variable) {
    const std::optional<BartTensor> theirs = bart_tensor(variable, bart.kind);
    return theirs && theirs->name == kBias &&
           std::ranges::find(model.weights, variable, &ModelWeight::name) == model.weights.end();
  };
  check_weights(model, bart_yaml(bart, around), from, is_absent);
  write_bart(model, bart, ids, from, directory);
  write_text_file(directory + "/config.json", bart_json(bart));
  write_text_file(directory + "/generation_config.json", bart_generation_json(bart));
  return notes;
}

}  // namespace

std::optional<BartTensor> bart_tensor(const std::string& variable, BartKind kind) {
  if (const auto found = outer_tensors().find(variable); found != outer_tensors().end()) return found->second;
  const std::vector<std::string> parts = parts_of(variable);
  const bool is_of_side = parts[0] == "encoder" || parts[0] == "decoder";
  if (is_of_side && (parts.size() == 2 || parts.size() == 3)) {
    const std::optional<std::string> name = tensor_of_side(variable.substr(parts[0].size() + 1), kind);
    if (!name) return std::nullopt;
    return BartTensor{{fmt::format("model.{}.{}", parts[0], *name)}};
  }
  if (parts.size() < 5 || parts.size() > 6) return std::nullopt;
  const std::optional<int> block = number_of(parts[1], "block"), layer = number_of(parts[2], "layer");
  static const std::vector<std::string> encoder = {"SelfAttention", "DenseReluDense"},
                                        decoder = {"SelfAttention", "EncDecAttention", "DenseReluDense"};
  const std::vector<std::string>& kinds = parts[0] == "encoder" ? encoder : decoder;
  if (!block || !layer || !is_of_side || *layer >= std::ssize(kinds)) return std::nullopt;
  const std::string& sublayer = kinds[static_cast<size_t>(*layer)];
  const bool is_attention = sublayer != "DenseReluDense";
  const std::string place = fmt::format("model.{}.layers.{}.", parts[0], *block);
  const std::string attention = sublayer == "SelfAttention" ? "self_attn" : "encoder_attn";
  if (parts[3] == "layer_norm" && parts.size() == 5) {
    const std::string norm = is_attention ? attention + "_layer_norm" : "final_layer_norm";
    if (parts[4] == "layer_norm_scale") return BartTensor{{place + norm + ".weight"}};
    if (parts[4] == "layer_norm_bias") return BartTensor{{place + norm + ".bias"}};
  }
  if (parts[3] != sublayer) return std::nullopt;
  const std::string rest = parts.size() == 5 ? parts[4] : parts[4] + "/" + parts[5];
  const std::optional<HuggingFaceTensor> tensor = tensor_of_layer(rest, is_attention);
  if (!tensor) return std::nullopt;
  return BartTensor{{place + (is_attention ? attention + "." : "") + tensor->name, tensor->transposed}};
}

HuggingFaceImport import_bart(const std::string& from, const ImportTarget& target) {
  const std::string config_file = from + "/config.json";
  HuggingFaceImport import;
  BartConfig bart = parse_bart_config(read_text_file(config_file), config_file, import.notes);
  const BartForm& form = form_of(bart.kind);
  const std::string decoding = generation_file_of(from, import.notes);
  parse_bart_generation(read_text_file(decoding), decoding, bart, import.notes);
  const HuggingFaceFiles files(from);
  const Tables tables = settle_tables(files, bart, from);
  if (are_sinusoids(form.positions)) {
    for (const char* side : {"encoder", "decoder"}) check_sinusoids(files, side, bart, from);
  }
  ModelSurroundings around{.vocabulary = {}, .target = target, .source = from};
  BartIds ids;
  around.vocabulary = settle_bart_vocabulary(from, target, bart, ids, import);
  around.infer = infer_text(bart.generation, generation_lengths(bart), tokens_of(from), import.notes);
  import.model.config = bart_yaml(bart, around);
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
    const std::optional<BartTensor> theirs = bart_tensor(variable.name, bart.kind);
    MTF_CHECK(theirs, "{} has the variable {}", with_article(form.name), variable.name);
    const StoredTensor& stored = stored_of(theirs->name);
    used.insert(stored.name);
    import.model.weights.push_back(
        {variable.name, imported(variable, *theirs, stored, ids, bart.d_model, from)});
  }
  const auto ignored = [&](const std::string& name) {
    return name.ends_with("shared.weight") || name.ends_with(".embed_tokens.weight") ||
           name == kSoftmaxTensor || name.ends_with("coder.version") ||
           (are_sinusoids(form.positions) &&
            (name.ends_with(".embed_positions.weight") || name.ends_with(".embed_positions.weights")));
  };
  files.check_unused(used, ignored, form.name);
  return import;
}

std::vector<std::string> export_bart(const ModelWeights& model, const std::string& from,
                                     const std::string& directory) {
  return export_any(model, from, directory, false);
}

std::vector<std::string> export_marian(const ModelWeights& model, const std::string& from,
                                       const std::string& directory) {
  return export_any(model, from, directory, true);
}

}  // namespace mtf
