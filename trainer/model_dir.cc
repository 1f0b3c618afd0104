#include "trainer/model_dir.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>

namespace mtf {

namespace fs = std::filesystem;

void check_model_dir(const Config& config, Diagnostics& diagnostics) {
  const fs::path directory(config.run.model_dir.text);
  std::error_code ignored;
  if (fs::exists(directory, ignored) && !fs::is_directory(directory, ignored)) {
    diagnostics.error({}, fmt::format("`run.model_dir`: {} is not a directory", directory.string()));
    return;
  }
  for (const char* file : {"config.yaml", "metrics.jsonl"}) {
    if (!fs::exists(directory / file, ignored)) continue;
    diagnostics.error(
        {},
        fmt::format("{} holds a run already, and runs cannot be continued before there are checkpoints",
                    directory.string()),
        "`run.model_dir=NEW` starts from step 0 in another directory; or remove this one");
    return;
  }
}

void create_model_dir(const Config& config) {
  std::error_code error;
  fs::create_directories(config.run.model_dir.text, error);
  if (error) {
    throw Error(ErrorKind::kSystem,
                fmt::format("{}: cannot be created: {}", config.run.model_dir.text, error.message()));
  }
  const std::string path = in_model_dir(config, "config.yaml");
  std::ofstream file(path);
  file << resolved_yaml(config) << std::flush;
  if (!file) throw Error(ErrorKind::kSystem, fmt::format("{}: cannot be written", path));
}

std::string in_model_dir(const Config& config, const std::string& name) {
  return (fs::path(config.run.model_dir.text) / name).string();
}

}  // namespace mtf
