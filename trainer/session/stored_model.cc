#include "trainer/session/stored_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <span>
#include <utility>
#include <vector>

#include "engine/base/hash.h"
#include "engine/checkpoint/checkpoint.h"
#include "trainer/session/model_dir.h"

namespace mtf {
namespace {

namespace fs = std::filesystem;

/// Returns the model of a configuration; null if it has none.
std::unique_ptr<Model> model_of(const Config& config, Diagnostics& diagnostics) {
  diagnostics.throw_if_errors();
  if (config.model.is_null()) return nullptr;
  std::unique_ptr<Model> model = make_model(config.model, diagnostics);
  diagnostics.throw_if_errors();
  return model;
}

}  // namespace

std::string latest_of(const std::string& run, const Mark& mark) {
  std::error_code ignored;
  if (!fs::exists(run, ignored))
    throw Error(ErrorKind::kConfig, mark, fmt::format("there is no directory {}", run),
                "the directory of a run");
  const std::vector<SavedCheckpoint> saved = list_checkpoints((fs::path(run) / "checkpoints").string());
  if (saved.empty()) throw Error(ErrorKind::kConfig, mark, run + " holds no checkpoint");
  return saved.back().path;
}

std::string checkpoint_at(const config::Path& path) {
  std::error_code error;
  if (fs::is_regular_file(path.text, error) || fs::exists(fs::path(path.text) / Manifest::kFile, error))
    return path.text;
  if (!fs::is_directory(path.text, error)) {
    const fs::file_type type = fs::status(path.text, error).type();
    throw Error(ErrorKind::kConfig, path.mark,
                type == fs::file_type::not_found ? "there is no " + path.text
                : type == fs::file_type::none ? fmt::format("cannot read {}: {}", path.text, error.message())
                                              : path.text + " is no checkpoint",
                "the directory of a run or of a checkpoint, or a .safetensors file");
  }
  return latest_of(path.text, path.mark);
}

Manifest manifest_of(const SafetensorsFile& file) {
  const auto found = file.metadata().find(Manifest::kFile);
  return found == file.metadata().end() ? Manifest{} : parse_manifest(found->second, file.path());
}

Manifest manifest_at(const std::string& checkpoint) {
  return fs::is_regular_file(checkpoint) ? manifest_of(SafetensorsFile(checkpoint))
                                         : read_manifest(checkpoint);
}

std::string weights_fingerprint(const std::string& checkpoint) {
  if (!fs::is_regular_file(checkpoint))
    return hash128_hex(read_text((fs::path(checkpoint) / Manifest::kFile).string()));
  constexpr size_t kMostBytes = 4096;
  const SafetensorsFile file(checkpoint);
  Hash128 hash;
  for (const StoredTensor& tensor : file.tensors()) {
    const std::string what =
        fmt::format("{} {} [{}]\n", tensor.name, name_of(tensor.dtype), fmt::join(tensor.shape, ", "));
    hash.add(std::as_bytes(std::span(what)));
    hash.add(tensor.data.first(std::min(tensor.data.size(), kMostBytes)));
  }
  return hash.hex();
}

std::unique_ptr<Model> model_of(const Manifest& manifest, const std::string& path) {
  const std::string config = manifest.config.empty() ? config_at(path) : manifest.config;
  if (config.empty()) return nullptr;
  Diagnostics diagnostics;
  return model_of(load_resolved(config, path, diagnostics, {"run.mode=infer"}), diagnostics);
}

std::string run_of(const std::string& checkpoint) {
  std::error_code ignored;
  const fs::path run =
      (fs::weakly_canonical(checkpoint, ignored) / "").parent_path().parent_path().parent_path();
  return fs::exists(run / kConfigFile) ? run.string() : std::string();
}

namespace {

/// Returns the content of the file `name` of the checkpoint's run or, of a safetensors file, the metadata of that name; empty
/// if there is none.
std::string text_beside(const std::string& checkpoint, const std::string& name) {
  if (fs::is_regular_file(checkpoint)) {
    const SafetensorsFile file(checkpoint);
    const auto found = file.metadata().find(name);
    return found == file.metadata().end() ? std::string() : found->second;
  }
  const std::string run = run_of(checkpoint);
  return run.empty() ? std::string() : read_text((fs::path(run) / name).string());
}

}  // namespace

std::string preparation_at(const std::string& checkpoint) {
  return text_beside(checkpoint, std::string(kPreparationFile));
}

std::string config_at(const std::string& checkpoint) { return text_beside(checkpoint, kConfigFile); }

namespace {

bool is_path(const CheckpointChoice& choice) { return std::holds_alternative<config::Path>(choice); }

std::string preparation_of(const Config& config, const CheckpointChoice& choice) {
  const auto* const path = std::get_if<config::Path>(&choice);
  return path ? preparation_at(checkpoint_at(*path)) : stored_preparation(config);
}

const InferCheckpoints& chosen_checkpoints(const Config& config) {
  return config.run.mode == RunMode::kEvaluate ? config.evaluate.checkpoint : config.infer.checkpoint;
}

}  // namespace

bool takes_weights_by_path(const Config& config) {
  const InferCheckpoints& choice = chosen_checkpoints(config);
  const auto* const list = std::get_if<std::vector<CheckpointChoice>>(&choice);
  return list ? std::ranges::any_of(*list, is_path) : std::holds_alternative<config::Path>(choice);
}

std::string preparation_of_weights(const Config& config) {
  const InferCheckpoints& choice = chosen_checkpoints(config);
  if (const auto* const path = std::get_if<config::Path>(&choice)) return preparation_of(config, *path);
  if (!takes_weights_by_path(config)) return stored_preparation(config);
  const auto& list = std::get<std::vector<CheckpointChoice>>(choice);
  const std::string first = preparation_of(config, list.front());
  const bool agree = std::ranges::all_of(
      list, [&](const CheckpointChoice& each) { return preparation_of(config, each) == first; });
  if (agree) return first;
  throw Error(ErrorKind::kConfig,
              config.mark(config.run.mode == RunMode::kEvaluate ? "evaluate.checkpoint" : "infer.checkpoint"),
              "the training data of these checkpoints have different classes, words, means or deviations "
              "(data.json of their runs)",
              "checkpoints that were trained on the same data, or one at a time");
}

StoredModel open_stored_model(const config::Path& checkpoint, const config::Path& config) {
  StoredModel stored{checkpoint_at(checkpoint), {}, nullptr};
  stored.manifest = manifest_at(stored.path);
  if (config.empty()) {
    stored.model = model_of(stored.manifest, stored.path);
  } else {
    Diagnostics diagnostics;
    stored.model = model_of(load_config({config.text}, {"run.mode=infer"}, diagnostics), diagnostics);
  }
  if (stored.model) return stored;
  throw Error(ErrorKind::kConfig, checkpoint.mark,
              fmt::format("{} does not say which model its weights are of", stored.path),
              "`config`, a file with its section `model`, beside `checkpoint`");
}

}  // namespace mtf
