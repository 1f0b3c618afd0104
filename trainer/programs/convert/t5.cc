#include "trainer/programs/convert/t5.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <set>

#include "data/vocabulary/train_vocabulary.h"
#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/base/printable.h"
#include "engine/core/convert_elements.h"
#include "engine/safetensors/safetensors.h"
#include "trainer/programs/convert/config_text.h"
#include "trainer/programs/convert/files.h"
#include "trainer/programs/convert/t5_config.h"

namespace mtf {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr const char* kEmbedding = "shared.weight";
constexpr const char* kSoftmax = "lm_head.weight";
constexpr const char* kVocabulary = "spiece.model";

/// Other names of the embedding, and a tensor that no layer reads.
constexpr std::array<std::string_view, 2> kEmbeddingAliases = {"encoder.embed_tokens.weight",
                                                               "decoder.embed_tokens.weight"};
constexpr std::string_view kUnused = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight";

std::vector<std::string> split(const std::string& name) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = std::min(name.find('/', begin), name.size());
    parts.push_back(name.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

/// Returns 7 for "block_007"; nullopt for another word.
std::optional<int> number_of(const std::string& part, const std::string& word) {
  if (part.size() != word.size() + 4 || !part.starts_with(word + "_")) return std::nullopt;
  const std::string digits = part.substr(word.size() + 1);
  if (!std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; })) return std::nullopt;
  return std::stoi(digits);
}

/// Returns the tensor of a layer's variable, such as "q" of "SelfAttention".
std::optional<T5Tensor> tensor_of_layer(const std::string& kind, const std::string& variable) {
  const auto one_of = [&](std::initializer_list<std::string_view> words) {
    return std::ranges::find(words, variable) != words.end();
  };
  if (kind == "rms_norm" && variable == "scale") return T5Tensor{"layer_norm.weight", false};
  const bool attention = kind == "SelfAttention" || kind == "EncDecAttention";
  if (attention && one_of({"q", "k", "v", "o"})) return T5Tensor{kind + "." + variable + ".weight", true};
  if (kind == "SelfAttention" && variable == "relative_attention_bias")
    return T5Tensor{kind + "." + variable + ".weight", true};
  if (kind == "DenseReluDense" && one_of({"wi/kernel", "wi_0/kernel", "wi_1/kernel", "wo/kernel"}))
    return T5Tensor{fmt::format("{}.{}.weight", kind, variable.substr(0, variable.find('/'))), true};
  return std::nullopt;
}

/// The tensors of a directory, in one or several files.
class T5Files {
 public:
  explicit T5Files(const std::string& directory) : directory_(directory) {
    const std::string index = directory + "/model.safetensors.index.json";
    if (fs::exists(directory + "/model.safetensors")) {
      add("model.safetensors");
    } else if (fs::exists(index)) {
      for (const std::string& name : files_of_index(index)) add(name);
    } else {
      throw Error(ErrorKind::kCheckpoint, directory + " has no model.safetensors",
                  "in Python, `model.save_pretrained(DIRECTORY, safe_serialization=True)` writes it");
    }
  }

  /// Returns null if there is no such tensor.
  const StoredTensor* find(const std::string& name) const {
    const auto found = tensors_.find(name);
    return found == tensors_.end() ? nullptr : found->second;
  }
  const StoredTensor& at(const std::string& name) const {
    const StoredTensor* tensor = find(name);
    if (!tensor)
      throw Error(ErrorKind::kCheckpoint, fmt::format("{} has no tensor `{}`", directory_, name),
                  "config.json and the file of weights are not of one model");
    return *tensor;
  }
  const StoredTensor& embedding() const {
    for (const std::string_view alias : kEmbeddingAliases) {
      if (find(kEmbedding)) break;
      if (const StoredTensor* tensor = find(std::string(alias))) return *tensor;
    }
    return at(kEmbedding);
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& [name, tensor] : tensors_) names.push_back(name);
    return names;
  }

 private:
  void add(const std::string& name) {
    files_.push_back(std::make_unique<SafetensorsFile>(directory_ + "/" + name));
    for (const StoredTensor& tensor : files_.back()->tensors()) {
      if (!tensors_.emplace(tensor.name, &tensor).second)
        throw Error(ErrorKind::kCheckpoint,
                    fmt::format("{}: tensor `{}` is in two of its files", directory_, tensor.name));
    }
  }

  static std::set<std::string> files_of_index(const std::string& path) {
    const auto damaged = [&](const std::string& what) -> Error {
      return {ErrorKind::kCheckpoint, fmt::format("{}: {}", path, what)};
    };
    std::set<std::string> files;
    try {
      const Json json = parse_json(read_text_file(path), [&](const std::string& key) {
        throw damaged(fmt::format("`{}` occurs twice", key));
      });
      for (const auto& [tensor, file] : json.at("weight_map").items()) {
        const auto name = file.get<std::string>();
        if (name.find('/') != std::string::npos)
          throw damaged(fmt::format("`{}` is no file beside it", name));
        files.insert(name);
      }
    } catch (const Json::exception& error) {
      throw damaged(message_of(error));
    }
    return files;
  }

  std::string directory_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, const StoredTensor*> tensors_;
};

/// Transposes [rows, columns] to [columns, rows].
void transpose(const float* from, int64_t rows, int64_t columns, float* to) {
  constexpr int64_t block = 32;  // both sides of a block stay in the L1 cache
  for (int64_t r = 0; r < rows; r += block) {
    for (int64_t c = 0; c < columns; ++c) {
      for (int64_t i = r; i < std::min(rows, r + block); ++i) to[c * rows + i] = from[i * columns + c];
    }
  }
}

/// Returns the rows and columns of a variable as a matrix; a vector has one row.
std::pair<int64_t, int64_t> matrix_of(const Shape& shape) {
  const int64_t columns = shape[shape.rank() - 1].size;
  return {shape.size() / columns, columns};
}

/// Returns the value of a variable from a Hugging Face tensor.
HostTensor value_of(const Variable& variable, const StoredTensor& stored, bool transposed,
                    const std::string& from) {
  const auto [rows, columns] = matrix_of(variable.shape);
  std::vector<int64_t> expected{rows, columns};
  if (transposed) {
    expected = {columns, rows};
  } else if (variable.shape.rank() == 1) {
    expected = {columns};
  }
  if (stored.shape != expected || !convertible(stored.dtype, DType::kFloat32)) {
    throw Error(
        ErrorKind::kCheckpoint,
        fmt::format("{}: tensor `{}` is {} [{}], and config.json says float32 [{}]", from, stored.name,
                    name_of(stored.dtype), fmt::join(stored.shape, ", "), fmt::join(expected, ", ")));
  }
  HostTensor stored_value(variable.shape, DType::kFloat32);
  convert_elements(stored.data.data(), stored.dtype, stored_value.bytes.data(), DType::kFloat32,
                   variable.shape.size());
  if (!transposed) return stored_value;
  HostTensor value(variable.shape, DType::kFloat32);
  transpose(stored_value.data<float>(), columns, rows, value.data<float>());
  return value;
}

/// Sets t5.tied by comparing the tensors of softmax and embedding, since newer versions of config.json say
/// `tied` for all models. Scaled logits are always tied to the embedding.
void settle_softmax(const T5Files& files, const std::string& from, T5Config& t5) {
  const StoredTensor* softmax = files.find(kSoftmax);
  const bool apart = softmax && !std::ranges::equal(softmax->data, files.embedding().data);
  if (apart && t5.scaled_logits)
    throw Error(ErrorKind::kCheckpoint,
                fmt::format("{}: `{}` is another matrix than `{}`, and config.json says that they are one",
                            from, kSoftmax, kEmbedding),
                "`\"tie_word_embeddings\": false` where the logits have no scale");
  t5.tied = !apart && (t5.tied || t5.scaled_logits);
}

/// Throws Error for tensors that the import did not use, except aliases and tensors that no layer reads.
void check_unused(const T5Files& files, const std::set<std::string>& used, const std::string& from) {
  std::vector<std::string> left;
  for (const std::string& name : files.names()) {
    if (used.contains(name) || name == kUnused || name == kSoftmax) continue;
    if (std::ranges::find(kEmbeddingAliases, name) == kEmbeddingAliases.end()) left.push_back(name);
  }
  constexpr size_t listed = 3;
  if (!left.empty()) {
    throw Error(ErrorKind::kCheckpoint,
                fmt::format("{} has {} tensors that a T5 of its config.json lacks: {}", from, left.size(),
                            list_names(left, listed)));
  }
}

/// Returns the value of `data.vocabulary`; files to copy and notes are added to `import`.
std::string vocabulary_of(const std::string& from, const std::string& to, int64_t rows, T5Import& import) {
  const auto check = [&](int64_t pieces, const std::string& file) {
    if (pieces <= rows) return;
    throw Error(ErrorKind::kCheckpoint,
                fmt::format("{} has {} pieces, and the embedding only {} rows", file, pieces, rows));
  };
  const auto sentencepiece = [&](int64_t pieces) {
    const config::Node path = config::Node::scalar(to + "/" + kVocabulary, {}, true);
    return fmt::format("{{type: sentencepiece, path: {}, size: {}}}", config::to_flow_yaml(path), pieces);
  };
  if (const std::string file = from + "/" + kVocabulary; fs::exists(file)) {
    SentencePieceOptions options;
    options.path.text = file;
    const int64_t pieces = read_vocabulary(options)->size();
    check(pieces, file);
    import.files.emplace_back(kVocabulary, read_text_file(file));
    return sentencepiece(pieces);
  }
  if (const std::string file = from + "/tokenizer_config.json";
      fs::exists(file) && read_text_file(file).find("ByT5Tokenizer") != std::string::npos) {
    check(vocabulary_size(BytesOptions{}), "the vocabulary of bytes");
    return "bytes";
  }
  import.notes.push_back(fmt::format(
      "{} has no {}, which texts need: convert it again with this file, or change `data.vocabulary`", from,
      kVocabulary));
  return sentencepiece(rows);
}

/// The largest number of tokens that Hugging Face's T5 tokeniser appends to the pieces.
constexpr int64_t kMostExtraIds = 100;

/// Writes the files of the vocabulary if Hugging Face has a tokeniser of its kind; otherwise adds a note.
void export_vocabulary(const Config& config, const std::string& run, int64_t rows,
                       const std::string& directory, std::vector<std::string>& notes) {
  const auto left_out = [&](const std::string& why) {
    notes.push_back(fmt::format("without files of the vocabulary: {}", why));
  };
  if (!config.data.vocabulary) return left_out("the configuration has none");
  if (are_apart(*config.data.vocabulary)) return left_out("a T5 has one for inputs and targets");
  LanguageVocabulary language = by_side(*config.data.vocabulary).targets;
  nlohmann::ordered_json tokenizer;
  if (language.get_if<BytesOptions>()) {
    tokenizer = {{"tokenizer_class", "ByT5Tokenizer"},
                 {"extra_ids", std::max<int64_t>(0, rows - vocabulary_size(language))}};
  } else if (auto* pieces = language.get_if<SentencePieceOptions>()) {
    if (pieces->is_trained())
      pieces->path.text = trained_vocabulary_path(*config.data.vocabulary, Side::kTargets, run);
    if (!fs::exists(pieces->path.text)) return left_out(fmt::format("there is no {}", pieces->path.text));
    write_text_file(directory + "/" + kVocabulary, read_text_file(pieces->path.text));
    pieces->size.reset();
    tokenizer = {{"tokenizer_class", "T5Tokenizer"},
                 {"extra_ids", std::clamp<int64_t>(rows - vocabulary_size(language), 0, kMostExtraIds)}};
  } else {
    return left_out("it is neither SentencePiece's nor bytes");
  }
  tokenizer.update({{"pad_token", "<pad>"}, {"eos_token", "</s>"}, {"unk_token", "<unk>"}});
  write_text_file(directory + "/tokenizer_config.json", tokenizer.dump(2) + "\n");
}

/// Combines heads and d_kv into one dimension, as in a T5. The elements keep their order.
Shape with_heads_together(const Shape& shape) {
  std::vector<Dimension> dimensions;
  for (const Dimension& d : shape) {
    if (d.name == "d_kv" && !dimensions.empty() && dimensions.back().name == "heads") {
      dimensions.back().size *= d.size;
    } else {
      dimensions.push_back(d);
    }
  }
  return Shape(std::move(dimensions));
}

/// Throws Error unless the weights are exactly those of `t5`: the configuration of a run may have been
/// changed, and a file may have lost some weights.
void check_weights(const ModelWeights& model, const T5Config& t5, const std::string& from) {
  const auto fail = [&](const std::string& variable, const std::string& there, const std::string& right) {
    throw Error(ErrorKind::kCheckpoint, fmt::format("{}: variable `{}` {}, and its config.yaml says {}", from,
                                                    variable, there, right));
  };
  const T5Surroundings around{
      .vocabulary = fmt::format("{{type: sentencepiece, path: {}, size: {}}}", kVocabulary, t5.vocab_size),
      .directory = from,
      .source = from};
  std::set<std::string> expected;
  for (const Variable& variable : ConfigText(t5_yaml(t5, around), from).variables()) {
    expected.insert(variable.name);
    const auto weight = std::ranges::find(model.weights, variable.name, &ModelWeight::name);
    const std::string right = variable.shape.to_string();
    if (weight == model.weights.end()) fail(variable.name, "is not there", right);
    const Shape shape = with_heads_together(weight->value.shape);
    if (!std::ranges::equal(shape, variable.shape, {}, &Dimension::size, &Dimension::size))
      fail(variable.name, "is " + shape.to_string(), right);
  }
  for (const ModelWeight& weight : model.weights) {
    if (!expected.contains(weight.name)) fail(weight.name, "is there", "nothing of it");
  }
}

}  // namespace

std::optional<T5Tensor> t5_tensor(const std::string& variable) {
  if (variable == "shared/embedding") return T5Tensor{kEmbedding, false};
  if (variable == "decoder/logits/kernel") return T5Tensor{kSoftmax, true};
  const std::vector<std::string> parts = split(variable);
  const std::string& side = parts[0];
  if (side != "encoder" && side != "decoder") return std::nullopt;
  if (parts.size() == 3 && parts[1] == "rms_norm" && parts[2] == "scale")
    return T5Tensor{side + ".final_layer_norm.weight", false};
  if (parts.size() < 5) return std::nullopt;
  const std::optional<int> block = number_of(parts[1], "block"), layer = number_of(parts[2], "layer");
  const std::string rest = parts.size() == 5 ? parts[4] : parts[4] + "/" + parts[5];
  const std::optional<T5Tensor> tensor = tensor_of_layer(parts[3], rest);
  if (!block || !layer || !tensor || parts.size() > 6) return std::nullopt;
  return T5Tensor{fmt::format("{}.block.{}.layer.{}.{}", side, *block, *layer, tensor->name),
                  tensor->transposed};
}

T5Import import_t5(const std::string& from, const std::string& to) {
  const std::string config_file = from + "/config.json";
  T5Config t5 = parse_t5_config(read_text_file(config_file), config_file);
  const T5Files files(from);
  settle_softmax(files, from, t5);
  T5Import import;
  T5Surroundings around{.vocabulary = {}, .directory = to, .source = from};
  around.vocabulary = vocabulary_of(from, to, t5.vocab_size, import);
  import.model.config = t5_yaml(t5, around);
  std::set<std::string> used;
  for (const Variable& variable : ConfigText(import.model.config, from).variables()) {
    const std::optional<T5Tensor> theirs = t5_tensor(variable.name);
    MTF_CHECK(theirs, "a T5 has the variable {}", variable.name);
    const StoredTensor& stored = theirs->name == kEmbedding ? files.embedding() : files.at(theirs->name);
    used.insert(stored.name);
    import.model.weights.push_back({variable.name, value_of(variable, stored, theirs->transposed, from)});
  }
  check_unused(files, used, from);
  return import;
}

std::vector<std::string> export_t5(const ModelWeights& model, const std::string& from,
                                   const std::string& directory) {
  std::vector<std::string> notes;
  const Config config = ConfigText(model.config, from).load();
  T5Config t5 = t5_of(config);
  std::vector<std::vector<float>> values;
  std::vector<StoredTensor> tensors;
  for (const ModelWeight& weight : model.weights) {
    const std::optional<T5Tensor> theirs = t5_tensor(weight.name);
    if (!theirs)
      throw Error(ErrorKind::kCheckpoint, fmt::format("{}: a T5 has no variable `{}`", from, weight.name));
    const auto [rows, columns] = matrix_of(with_heads_together(weight.value.shape));
    if (theirs->name == kEmbedding) t5.vocab_size = rows;
    std::vector<float> value(static_cast<size_t>(rows * columns));
    convert_elements(weight.value.bytes.data(), weight.value.dtype,
                     reinterpret_cast<std::byte*>(value.data()), DType::kFloat32, rows * columns);
    StoredTensor tensor{.name = theirs->name, .shape = {rows, columns}};
    if (theirs->transposed) {
      std::vector<float> turned(value.size());
      transpose(value.data(), rows, columns, turned.data());
      value = std::move(turned);
      tensor.shape = {columns, rows};
    } else if (weight.value.shape.rank() == 1) {
      tensor.shape = {columns};
    }
    values.push_back(std::move(value));
    tensors.push_back(std::move(tensor));
  }
  check_weights(model, t5, from);
  for (size_t i = 0; i < tensors.size(); ++i) tensors[i].data = std::as_bytes(std::span(values[i]));
  write_safetensors(directory + "/model.safetensors", tensors, {{"format", "pt"}});
  write_text_file(directory + "/config.json", t5_json(t5));
  const nlohmann::ordered_json generation = {
      {"decoder_start_token_id", kPadId}, {"eos_token_id", kEosId}, {"pad_token_id", kPadId}};
  write_text_file(directory + "/generation_config.json", generation.dump(2) + "\n");
  export_vocabulary(config, model.directory, t5.vocab_size, directory, notes);
  return notes;
}

}  // namespace mtf
