#include "trainer/programs/convert/hugging_face.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <limits>
#include <span>

#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "engine/base/with_article.h"
#include "engine/core/convert_elements.h"
#include "trainer/programs/convert/config_text.h"
#include "trainer/programs/convert/files.h"

namespace mtf {
namespace {

namespace fs = std::filesystem;

std::set<std::string> files_of_index(const std::string& path) {
  const auto damaged = [&](const std::string& what) -> Error {
    return {ErrorKind::kCheckpoint, fmt::format("{}: {}", path, what)};
  };
  std::set<std::string> files;
  try {
    const nlohmann::json json = parse_json(read_text_file(path), [&](const std::string& key) {
      throw damaged(fmt::format("`{}` occurs twice", key));
    });
    for (const auto& [tensor, file] : json.at("weight_map").items()) {
      const auto name = file.get<std::string>();
      if (name.find('/') != std::string::npos) throw damaged(fmt::format("`{}` is no file beside it", name));
      files.insert(name);
    }
  } catch (const nlohmann::json::exception& error) {
    throw damaged(message_of(error));
  }
  return files;
}

/// The names of activations in config.json. If several have the same activation, the first one is written.
struct NamedActivation {
  std::string_view name;
  Activation activation;
};
constexpr std::array<NamedActivation, 9> kNamedActivations = {{{"gelu", Activation::kGeluErf},
                                                               {"gelu_new", Activation::kGelu},
                                                               {"gelu_pytorch_tanh", Activation::kGelu},
                                                               {"gelu_fast", Activation::kGelu},
                                                               {"relu", Activation::kRelu},
                                                               {"relu2", Activation::kSquaredRelu},
                                                               {"silu", Activation::kSwish},
                                                               {"swish", Activation::kSwish},
                                                               {"tanh", Activation::kTanh}}};

/// What Hugging Face calls a label without a name.
std::string usual_label(size_t number) { return fmt::format("LABEL_{}", number); }

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

}  // namespace

std::string infer_line(const ModelSurroundings& around) {
  return around.infer.empty() ? "" : fmt::format("infer: {{{}}}\n", around.infer);
}

std::string usage_comment(const ModelSurroundings& around, std::string_view data) {
  const std::string path = printable(around.target.path);
  if (around.target.is_file)
    return fmt::format("#   mtf-convert {} NEW      # makes a directory of it, which mtf-train takes", path);
  return fmt::format("#   mtf-train {}/config.yaml {} run.model_dir=NEW      # goes on training it", path,
                     data);
}

std::string vocabulary_path(const std::string& from, const std::string& name, const ImportTarget& target,
                            HuggingFaceImport& import) {
  const std::string file = from + "/" + name;
  if (!fs::exists(file)) {
    import.notes.push_back(fmt::format(
        "{} has no {}, which texts need: convert it again with this file, or change `data.vocabulary`", from,
        name));
  } else if (target.is_file) {
    import.notes.push_back(
        fmt::format("{} has no vocabulary, which texts need: its configuration names {}", target.path, file));
  } else {
    import.files.emplace_back(name, read_text_file(file));
  }
  return target.is_file ? fs::absolute(file).lexically_normal().string() : target.path + "/" + name;
}

HuggingFaceJson::HuggingFaceJson(const std::string& text, const std::string& path) : path_(path) {
  try {
    json_ = parse_json(text, [&](const std::string& key) { fail(fmt::format("`{}` occurs twice", key)); });
  } catch (const nlohmann::json::exception& error) {
    fail(fmt::format("it is no valid JSON ({})", message_of(error)));
  }
  if (!json_.is_object()) fail("it is no JSON object");
}

void HuggingFaceJson::fail(const std::string& what, const std::string& hint) const {
  throw Error(ErrorKind::kCheckpoint, fmt::format("{}: {}", path_, what), hint);
}

int64_t HuggingFaceJson::size(const char* key, int64_t otherwise, int64_t least) const {
  if (!has(key)) return otherwise;
  constexpr int64_t most = std::numeric_limits<int32_t>::max();
  if (!json_[key].is_number_unsigned() || json_[key] < least || json_[key] > most)
    fail(fmt::format("`{}` is {}, no size", key, json_[key].dump()));
  return json_[key].get<int64_t>();
}

double HuggingFaceJson::number(const char* key, double otherwise) const {
  if (!has(key)) return otherwise;
  if (!json_[key].is_number() || json_[key] < 0 || json_[key] >= 1)
    fail(fmt::format("`{}` is {}, no number from 0 to 1", key, json_[key].dump()));
  return json_[key].get<double>();
}

double HuggingFaceJson::positive(const char* key, double otherwise) const {
  if (!has(key)) return otherwise;
  if (!json_[key].is_number() || json_[key] <= 0)
    fail(fmt::format("`{}` is {}, no number above 0", key, json_[key].dump()));
  return json_[key].get<double>();
}

HuggingFaceJson HuggingFaceJson::object(const char* key) const {
  return {has(key) ? json_[key].dump() : "{}", fmt::format("{}: {}", path_, key)};
}

std::string HuggingFaceJson::text(const char* key, const std::string& otherwise) const {
  if (!has(key)) return otherwise;
  if (!json_[key].is_string()) fail(fmt::format("`{}` is {}, no text", key, json_[key].dump()));
  return json_[key].get<std::string>();
}

int64_t HuggingFaceJson::major_version(const char* key, int64_t otherwise) const {
  const std::string version = text(key, "");
  int64_t major = otherwise;
  std::from_chars(version.data(), version.data() + version.size(), major);
  return major;
}

bool HuggingFaceJson::flag(const char* key, bool otherwise) const {
  if (!has(key)) return otherwise;
  if (!json_[key].is_boolean()) fail(fmt::format("`{}` is {}, not true or false", key, json_[key].dump()));
  return json_[key].get<bool>();
}

void HuggingFaceJson::require(const char* key, const nlohmann::json& value, const char* why) const {
  if (has(key) && json_[key] != value)
    fail(fmt::format("`{}` is {}, and only {} can be converted", key, json_[key].dump(), value.dump()), why);
}

std::optional<int32_t> parse_token_id(const HuggingFaceJson& json, const char* key, int64_t ids) {
  if (!json.has(key)) return std::nullopt;
  const nlohmann::json& given = json.at(key);
  const nlohmann::json& id = given.is_array() && !given.empty() ? given.front() : given;
  if (!id.is_number_unsigned() || id >= ids)
    json.fail(fmt::format("`{}` is {}, no id of a token", key, given.dump()),
              fmt::format("a number from 0 to {}", ids - 1));
  return id.get<int32_t>();
}

HuggingFaceJson tokenizer_config_of(const std::string& directory) {
  const std::string file = fmt::format("{}/{}", directory, kTokenizerConfig);
  return {fs::exists(file) ? read_text_file(file) : "{}", file};
}

Activation parse_activation(const HuggingFaceJson& json, const char* key, const std::string& otherwise) {
  const std::string given = json.text(key, otherwise);
  const auto found = std::ranges::find(kNamedActivations, given, &NamedActivation::name);
  if (found != kNamedActivations.end()) return found->activation;
  std::vector<std::string_view> known;
  for (const NamedActivation& entry : kNamedActivations) known.push_back(entry.name);
  json.fail(fmt::format("`{}` is {}, which cannot be converted", key, given),
            fmt::format("one of {}", fmt::join(known, ", ")));
}

std::string_view activation_name(Activation activation) {
  const auto found = std::ranges::find(kNamedActivations, activation, &NamedActivation::activation);
  return found == kNamedActivations.end() ? std::string_view() : found->name;
}

std::vector<std::string> parse_label_names(const HuggingFaceJson& json) {
  if (!json.has("id2label")) return {};
  const nlohmann::json& given = json.at("id2label");
  std::vector<std::string> names;
  bool are_usual = true;
  for (size_t i = 0; i < given.size(); ++i) {
    const auto name = given.find(fmt::to_string(i));
    if (name == given.end())
      json.fail(fmt::format("`id2label` has no name for label {}", i), "a name for each number from 0");
    names.push_back(name->is_string() ? name->get<std::string>() : name->dump());
    are_usual = are_usual && names.back() == usual_label(i);
  }
  return are_usual ? std::vector<std::string>() : names;
}

std::vector<std::string> settled_label_names(std::vector<std::string> names, int64_t count,
                                             const std::string& rows_of, const std::string& config_file,
                                             std::vector<std::string>& notes) {
  if (names.empty()) return names;
  if (std::ssize(names) != count)
    throw Error(ErrorKind::kCheckpoint, fmt::format("{}: `id2label` has {} names, and `{}` {} rows",
                                                    config_file, names.size(), rows_of, count));
  if (std::ranges::find(names, "") != names.end()) {
    notes.push_back(fmt::format("{}: `id2label` has an empty name: labels are numbers", config_file));
    return {};
  }
  std::set<std::string> different(names.begin(), names.end());
  std::set<std::string> seen;
  for (size_t i = 0; i < names.size(); ++i) {
    if (seen.insert(names[i]).second) continue;
    std::string name = names[i];  // ImageNet has two cranes
    while (!different.insert(name).second) name += fmt::format(" ({})", i);
    notes.push_back(
        fmt::format("{}: `id2label` has `{}` twice: label {} is `{}`", config_file, names[i], i, name));
    names[i] = name;
  }
  return names;
}

void add_label_names(const std::vector<std::string>& names, int64_t count, nlohmann::ordered_json& json) {
  nlohmann::ordered_json by_number, numbers;
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    const std::string label = i < names.size() ? names[i] : usual_label(i);
    by_number[fmt::to_string(i)] = label;
    numbers[label] = i;
  }
  json["id2label"] = by_number;
  json["label2id"] = numbers;
}

HuggingFaceFiles::HuggingFaceFiles(const std::string& directory) : directory_(directory) {
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

const StoredTensor* HuggingFaceFiles::find(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : found->second;
}

const StoredTensor& HuggingFaceFiles::at(const std::string& name) const {
  const StoredTensor* tensor = find(name);
  if (!tensor)
    throw Error(ErrorKind::kCheckpoint, fmt::format("{} has no tensor `{}`", directory_, name),
                "config.json and the file of weights are not of one model");
  return *tensor;
}

std::vector<std::string> HuggingFaceFiles::names() const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors_) names.push_back(name);
  return names;
}

void HuggingFaceFiles::check_unused(const std::set<std::string>& used,
                                    const std::function<bool(const std::string& name)>& ignored,
                                    std::string_view model) const {
  std::vector<std::string> left;
  for (const std::string& name : names()) {
    if (!used.contains(name) && !ignored(name)) left.push_back(name);
  }
  constexpr size_t listed = 3;
  if (!left.empty()) {
    throw Error(ErrorKind::kCheckpoint,
                fmt::format("{} has {} tensors that {} of its config.json lacks: {}", directory_, left.size(),
                            with_article(model), list_names(left, listed)));
  }
}

void HuggingFaceFiles::add(const std::string& name) {
  files_.push_back(std::make_unique<SafetensorsFile>(directory_ + "/" + name));
  for (const StoredTensor& tensor : files_.back()->tensors()) {
    if (!tensors_.emplace(tensor.name, &tensor).second)
      throw Error(ErrorKind::kCheckpoint,
                  fmt::format("{}: tensor `{}` is in two of its files", directory_, tensor.name));
  }
}

bool are_equal(const StoredTensor& a, const StoredTensor& b) {
  return a.shape == b.shape && std::ranges::equal(a.data, b.data);
}

std::vector<std::string> parts_of(const std::string& variable) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= variable.size();) {
    const size_t end = std::min(variable.find('/', begin), variable.size());
    parts.push_back(variable.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::optional<int> number_of(const std::string& part, const std::string& word) {
  if (part.size() != word.size() + 4 || !part.starts_with(word + "_")) return std::nullopt;
  const std::string digits = part.substr(word.size() + 1);
  if (!std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; })) return std::nullopt;
  return std::stoi(digits);
}

void check_stored(const StoredTensor& stored, const std::vector<int64_t>& shape, const std::string& from) {
  const bool has_type = convertible(stored.dtype, DType::kFloat32);
  if (stored.shape == shape && has_type) return;
  throw Error(ErrorKind::kCheckpoint,
              fmt::format("{}: tensor `{}` is {} [{}], and config.json says float32 [{}]", from, stored.name,
                          name_of(stored.dtype), fmt::join(stored.shape, ", "), fmt::join(shape, ", ")),
              has_type ? "" : "in Python, `model.float().save_pretrained(DIRECTORY)` writes float32");
}

HostTensor value_of(const Variable& variable, const StoredTensor& stored, bool transposed,
                    const std::string& from) {
  const auto [rows, columns] = matrix_of(variable.shape);
  std::vector<int64_t> expected{rows, columns};
  if (transposed) {
    expected = {columns, rows};
  } else if (variable.shape.rank() == 1) {
    expected = {columns};
  }
  check_stored(stored, expected, from);
  HostTensor stored_value(variable.shape, DType::kFloat32);
  convert_elements(stored.data.data(), stored.dtype, stored_value.bytes.data(), DType::kFloat32,
                   variable.shape.size());
  if (!transposed) return stored_value;
  HostTensor value(variable.shape, DType::kFloat32);
  transpose(stored_value.data<float>(), columns, rows, value.data<float>());
  return value;
}

Shape with_heads_together(const Shape& shape) {
  std::vector<Dimension> dimensions;
  for (const Dimension& d : shape) {
    const bool of_head = d.name == "d_kv" || d.name == "query_heads";
    if (of_head && !dimensions.empty() && dimensions.back().name == "heads") {
      dimensions.back().size *= d.size;
    } else {
      dimensions.push_back(d);
    }
  }
  return Shape(std::move(dimensions));
}

void check_weights(const ModelWeights& model, const std::string& config, const std::string& from,
                   const std::function<bool(const std::string& variable)>& is_absent) {
  const auto fail = [&](const std::string& variable, const std::string& there, const std::string& right) {
    throw Error(ErrorKind::kCheckpoint, fmt::format("{}: variable `{}` {}, and its config.yaml says {}", from,
                                                    variable, there, right));
  };
  std::set<std::string> expected;
  for (const Variable& variable : ConfigText(config, from).variables()) {
    if (is_absent(variable.name)) continue;
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

WrittenTensor written_tensor(const ModelWeight& weight, const HuggingFaceTensor& theirs) {
  const Shape shape = with_heads_together(weight.value.shape);
  const auto [rows, columns] = matrix_of(shape);
  WrittenTensor tensor{theirs.name, {rows, columns}, std::vector<float>(static_cast<size_t>(shape.size()))};
  convert_elements(weight.value.bytes.data(), weight.value.dtype,
                   reinterpret_cast<std::byte*>(tensor.value.data()), DType::kFloat32, shape.size());
  if (theirs.factor != 1)
    for (float& value : tensor.value) value = static_cast<float>(value * theirs.factor);
  if (theirs.transposed) {
    std::vector<float> turned(tensor.value.size());
    transpose(tensor.value.data(), rows, columns, turned.data());
    tensor.value = std::move(turned);
    tensor.shape = {columns, rows};
  } else if (shape.rank() == 1) {
    tensor.shape = {columns};
  }
  return tensor;
}

void write_tensors(const std::vector<WrittenTensor>& tensors, const std::string& directory,
                   const std::vector<std::string>& counters) {
  constexpr int64_t zero = 0;
  std::vector<StoredTensor> stored;
  for (const WrittenTensor& tensor : tensors) {
    stored.push_back(
        {.name = tensor.name, .shape = tensor.shape, .data = std::as_bytes(std::span(tensor.value))});
  }
  for (const std::string& counter : counters) {
    stored.push_back(
        {.name = counter, .dtype = DType::kInt64, .shape = {}, .data = std::as_bytes(std::span(&zero, 1))});
  }
  write_safetensors(directory + "/model.safetensors", stored, {{"format", "pt"}});
}

void write_tensors(
    const ModelWeights& model,
    const std::function<std::optional<HuggingFaceTensor>(const std::string& variable)>& name_of,
    const std::string& from, std::string_view kind, const std::string& directory) {
  std::vector<WrittenTensor> tensors;
  for (const ModelWeight& weight : model.weights) {
    const std::optional<HuggingFaceTensor> theirs = name_of(weight.name);
    if (!theirs)
      throw Error(ErrorKind::kCheckpoint,
                  fmt::format("{}: {} has no variable `{}`", from, with_article(kind), weight.name));
    tensors.push_back(written_tensor(weight, *theirs));
  }
  write_tensors(tensors, directory);
}

}  // namespace mtf
