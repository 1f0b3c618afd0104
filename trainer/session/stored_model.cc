#include "trainer/session/stored_model.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "engine/checkpoint/checkpoint.h"
#include "trainer/config/config.h"

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
  if (saved.empty()) throw Error(ErrorKind::kCheckpoint, mark, run + " holds no checkpoint");
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

std::unique_ptr<Model> model_of(const Manifest& manifest, const std::string& path) {
  if (manifest.config.empty()) return nullptr;
  Diagnostics diagnostics;
  return model_of(load_resolved(manifest.config, path, diagnostics), diagnostics);
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
