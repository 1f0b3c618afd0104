#include "trainer/programs/convert/config_text.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <utility>

#include "data/source.h"
#include "engine/base/file.h"
#include "engine/config/load.h"
#include "trainer/session/session.h"

namespace mtf {
namespace {

/// Rethrows an error with the name of the text in place of the temporary file's.
[[noreturn]] void throw_renamed(const Error& error, const std::string& path, const std::string& name) {
  std::vector<Problem> problems = error.problems();
  for (Problem& problem : problems) {
    if (problem.mark.file == path) problem.mark.file = name;
  }
  throw Error(std::move(problems));
}

/// A mode in which keys that training requires may be missing.
constexpr std::string_view kNeedsModel = "run.mode=infer";

/// Returns what was loaded for kNeedsModel with the usual mode.
Config model_config(Config config, const Diagnostics& diagnostics) {
  diagnostics.throw_if_errors();
  config.run.mode = RunOptions().mode;
  return config;
}

}  // namespace

std::string quoted(const std::string& text) {
  return config::to_flow_yaml(config::Node::scalar(text, {}, true));
}

ConfigText::ConfigText(const std::string& text, const std::string& model)
    : text_(text),
      name_(model + ": config.yaml"),
      path_((std::filesystem::temp_directory_path() / "mtf-convert-XXXXXX").string()) {
  const int descriptor = ::mkstemp(path_.data());
  int error = errno;
  if (descriptor >= 0) {
    ::close(descriptor);
    error = write_file(path_, std::as_bytes(std::span(text)));
    if (error == 0) return;
    ::unlink(path_.c_str());
  }
  throw Error(ErrorKind::kSystem,
              fmt::format("{}: cannot be taken apart: no temporary file can be written as {}: {}", name_,
                          path_, system_message(error)),
              "a directory with room, as TMPDIR");
}

ConfigText::~ConfigText() { ::unlink(path_.c_str()); }

Config load_model_config(const std::string& path) {
  Diagnostics diagnostics;
  return model_config(load_config({path}, {std::string(kNeedsModel)}, diagnostics), diagnostics);
}

Config ConfigText::load() const {
  Diagnostics diagnostics;
  return model_config(load_resolved(text_, name_, diagnostics, {std::string(kNeedsModel)}), diagnostics);
}

std::vector<Variable> ConfigText::variables() const {
  try {
    Diagnostics diagnostics;
    Session session =
        open_session({path_}, {"run.mode=explain", "distill=null", "preference=null", "precision.infer=same"},
                     diagnostics);
    if (session.train_data) {  // the texts may be others than the model's, such as pairs
      std::vector<Feature> features = session.train_data->features();
      for (Feature& feature : features) feature.one_text = true;
      session.train_data = std::make_shared<DeclaredSource>(std::move(features));
    }
    const std::unique_ptr<Graph> graph = build_evaluation(session, diagnostics).graph;
    diagnostics.throw_if_errors();
    std::vector<Variable> variables;
    for (const auto& variable : graph->variables()) variables.push_back(*variable);
    return variables;
  } catch (const Error& error) {
    throw_renamed(error, path_, name_);
  }
}

}  // namespace mtf
