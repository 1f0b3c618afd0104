#include "trainer/programs/convert/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <span>

#include "engine/base/error.h"
#include "engine/base/file.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/safetensors/safetensors.h"
#include "trainer/checkpoint/file_names.h"
#include "trainer/checkpoint/restore.h"
#include "trainer/optimizer/averages.h"
#include "trainer/programs/convert/config_text.h"
#include "trainer/programs/convert/files.h"
#include "trainer/session/model_dir.h"
#include "trainer/session/stored_model.h"

namespace mtf {
namespace {

namespace fs = std::filesystem;

/// The metadata of a safetensors file have an entry for each file of the checkpoint except that of the weights:
/// it lists the names of its variables, one per line.
constexpr const char* kWeightsFile = "weights.safetensors";
constexpr std::string_view kStateFileSuffix = ".safetensors";

/// Returns `path` if it is the directory of a checkpoint, or else the chosen checkpoint of the run in `path`.
std::string checkpoint_in(const std::string& path, const std::optional<int64_t>& step) {
  if (fs::exists(fs::path(path) / Manifest::kFile)) {
    if (step)
      throw Error(ErrorKind::kUsage,
                  fmt::format("{} is one checkpoint, and --step chooses among several", path),
                  "the directory of the run");
    return path;
  }
  const std::vector<SavedCheckpoint> saved = list_checkpoints((fs::path(path) / "checkpoints").string());
  if (saved.empty()) throw Error(ErrorKind::kCheckpoint, path + " holds no checkpoint");
  if (!step) return saved.back().path;
  std::vector<int64_t> steps;
  for (const SavedCheckpoint& checkpoint : saved) {
    if (checkpoint.step == *step) return checkpoint.path;
    steps.push_back(checkpoint.step);
  }
  throw Error(ErrorKind::kCheckpoint, fmt::format("{} has no checkpoint of step {}", path, *step),
              fmt::format("it has {}", fmt::join(steps, ", ")));
}

/// Removes the entries that only resuming a training needs.
void keep_weights_only(Manifest& manifest) {
  manifest.next_rows.clear();
  manifest.state.clear();
}

HostTensor read(CheckpointReader& reader, const CheckpointVariable& variable, const std::string& name) {
  HostTensor value(variable.shape, variable.dtype);
  reader.read(name, std::vector<int64_t>(static_cast<size_t>(variable.shape.rank()), 0),
              variable.shape.sizes(), value.bytes.data());
  return value;
}

/// Returns the shape of a tensor; nullopt if the file does not name its dimensions.
std::optional<Shape> named_shape(const StoredTensor& tensor) {
  if (tensor.dimensions.size() != tensor.shape.size()) return std::nullopt;
  std::vector<Dimension> dimensions;
  for (size_t i = 0; i < tensor.shape.size(); ++i)
    dimensions.push_back({tensor.dimensions[i], tensor.shape[i]});
  return Shape(std::move(dimensions));
}

/// Returns the checkpoint's file of each variable that is not a weight.
std::map<std::string, std::string> files_of_state(const SafetensorsFile& file) {
  std::map<std::string, std::string> files;
  for (const auto& [key, names] : file.metadata()) {
    if (!key.ends_with(kStateFileSuffix)) continue;
    if (key.find('/') != std::string::npos)
      throw Error(ErrorKind::kCheckpoint, fmt::format("{}: `{}` is no name of a file", file.path(), key));
    for (size_t begin = 0; begin < names.size();) {
      const size_t end = std::min(names.find('\n', begin), names.size());
      files[names.substr(begin, end - begin)] = key;
      begin = end + 1;
    }
  }
  return files;
}

/// Gives tensors the dimension names of the model's variables.
class DimensionsOfModel {
 public:
  DimensionsOfModel(const ModelWeights& model, const std::string& path)
      : path_(path), variables_(ConfigText(model.config, path).variables()) {}

  Shape shape(const StoredTensor& tensor) const {
    const auto found = std::ranges::find(variables_, tensor.name, &Variable::name);
    if (found == variables_.end())
      throw Error(ErrorKind::kCheckpoint,
                  fmt::format("{}: the model has no variable `{}`", path_, tensor.name));
    if (!are_elements_of(tensor.shape, found->shape))
      throw Error(ErrorKind::kCheckpoint,
                  fmt::format("{}: `{}` is [{}], and the model has {}", path_, tensor.name,
                              fmt::join(tensor.shape, ", "), found->shape.to_string()));
    return found->shape;
  }

  void check_complete(const SafetensorsFile& file) const {
    for (const Variable& variable : variables_) {
      if (!file.find(variable.name))
        throw Error(ErrorKind::kCheckpoint,
                    fmt::format("{} lacks the model's variable `{}`", path_, variable.name));
    }
  }

 private:
  const std::string& path_;
  std::vector<Variable> variables_;
};

/// Throws Error if the file's metadata names dimensions of a tensor that it lacks: another program may have
/// rewritten the file without some of its tensors.
void check_none_lost(const SafetensorsFile& file) {
  constexpr std::string_view prefix = "dimensions/";
  if (file.tensors().empty()) throw Error(ErrorKind::kCheckpoint, file.path() + " has no tensors");
  for (const auto& [key, names] : file.metadata()) {
    if (key.starts_with(prefix) && !file.find(key.substr(prefix.size())))
      throw Error(ErrorKind::kCheckpoint,
                  fmt::format("{} names the dimensions of `{}`, and has no such tensor", file.path(),
                              key.substr(prefix.size())));
  }
}

void add_tensors(const SafetensorsFile& file, ModelWeights& model) {
  check_none_lost(file);
  const bool named =
      std::ranges::all_of(file.tensors(), [](const StoredTensor& t) { return named_shape(t).has_value(); });
  std::optional<DimensionsOfModel> dimensions;
  if (!named) dimensions.emplace(model, file.path()).check_complete(file);
  const std::map<std::string, std::string> state = files_of_state(file);
  for (const StoredTensor& tensor : file.tensors()) {
    HostTensor value(named ? *named_shape(tensor) : dimensions->shape(tensor), tensor.dtype);
    std::ranges::copy(tensor.data, value.bytes.begin());
    const auto found = state.find(tensor.name);
    model.weights.push_back(
        {tensor.name, std::move(value), found == state.end() ? kWeightsFile : found->second});
  }
}

}  // namespace

ModelWeights read_checkpoint_weights(const std::string& path, const CheckpointSelection& part) {
  CheckpointReader reader(checkpoint_in(path, part.step));
  ModelWeights model{.config = {},
                     .directory = run_of(reader.path()),
                     .preparation = preparation_at(reader.path()),
                     .manifest = reader.manifest(),
                     .weights = {}};
  if (!model.directory.empty())
    model.config = read_text_file(fmt::format("{}/{}", model.directory, kConfigFile));
  model.manifest.files.clear();
  model.manifest.variables.clear();
  if (!part.all) keep_weights_only(model.manifest);
  const Restore what = part.all || part.raw ? Restore::kWeights : Restore::kAverages;
  for (const CheckpointVariable& variable : reader.manifest().variables) {
    const std::string file = file_name_of_one(variable.blocks.front().file);
    if (!part.all && file != kWeightsFile) continue;
    model.weights.push_back(
        {variable.name, read(reader, variable, restored_name(reader, variable.name, what)), file});
  }
  return model;
}

ModelWeights read_weights_file(const std::string& path, const std::string& config) {
  const SafetensorsFile file(path);
  ModelWeights model{.config = {},
                     .directory = {},
                     .preparation = preparation_at(path),
                     .manifest = manifest_of(file),
                     .weights = {}};
  model.config = config.empty() ? config_at(path) : resolved_yaml(load_model_config(config));
  if (model.config.empty()) {
    throw Error(ErrorKind::kUsage, path + " does not say of which model it is",
                "`--config FILE.yaml`, the configuration of the model; of a model in Hugging Face form the "
                "directory");
  }
  add_tensors(file, model);
  return model;
}

void keep_weights(ModelWeights& model) {
  std::map<std::string, HostTensor*> others;
  for (ModelWeight& weight : model.weights) {
    if (weight.file != kWeightsFile) others.emplace(weight.name, &weight.value);
  }
  for (ModelWeight& weight : model.weights) {
    const auto average = others.find(average_name(weight.name));
    if (weight.file == kWeightsFile && average != others.end()) weight.value = std::move(*average->second);
  }
  std::erase_if(model.weights, [](const ModelWeight& weight) { return weight.file != kWeightsFile; });
  keep_weights_only(model.manifest);
}

void write_model_directory(const ModelWeights& model, const std::string& directory) {
  write_text_file(fmt::format("{}/{}", directory, kConfigFile), model.config);
  if (!model.preparation.empty())
    write_text_file(fmt::format("{}/{}", directory, kPreparationFile), model.preparation);
  if (!model.directory.empty()) {
    for (const fs::directory_entry& entry : fs::directory_iterator(model.directory)) {
      const std::string name = entry.path().filename().string();
      if (!name.starts_with("vocabulary.") || without_partial(name) != name || !entry.is_regular_file())
        continue;
      write_text_file(fmt::format("{}/{}", directory, name), read_text_file(entry.path().string()));
    }
  }
  std::vector<CheckpointFile> files{{kWeightsFile, {}}};
  for (const ModelWeight& weight : model.weights) {
    auto file = std::ranges::find(files, weight.file, &CheckpointFile::name);
    if (file == files.end()) file = files.insert(files.end(), {weight.file, {}});
    file->tensors.push_back(
        {weight.name, weight.value.dtype, weight.value.shape, {}, {}, weight.value.bytes});
  }
  write_checkpoint(directory + "/checkpoints", model.manifest, files);
}

void write_weights_file(const ModelWeights& model, const std::string& path) {
  std::map<std::string, std::string> metadata{{Manifest::kFile, to_json(model.manifest)}};
  if (!model.config.empty()) metadata[kConfigFile] = model.config;
  if (!model.preparation.empty()) metadata[std::string(kPreparationFile)] = model.preparation;
  std::vector<StoredTensor> tensors;
  for (const ModelWeight& weight : model.weights) {
    const HostTensor& value = weight.value;
    tensors.push_back({weight.name, value.dtype, value.shape.sizes(), value.shape.names(), value.bytes});
    if (weight.file != kWeightsFile) metadata[weight.file] += weight.name + '\n';
  }
  write_safetensors(path, tensors, metadata);
}

}  // namespace mtf
