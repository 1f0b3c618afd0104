// Loads configurations from a text instead of a file, for models that are converted.
//
//   const ConfigText text(model.config, "ende.safetensors");
//   const Config config = text.load();
#pragma once

#include <string>
#include <vector>

#include "engine/graph/variable.h"
#include "trainer/config/config.h"

namespace mtf {

/// Loads a configuration of which only the model is needed: keys that training requires may be missing, as
/// may the files of its data. Throws Error (kConfig).
Config load_model_config(const std::string& path);

/// Quotes a text for YAML.
std::string quoted(const std::string& text);

class ConfigText {
 public:
  /// `model` names the model in messages.
  ConfigText(const std::string& text, const std::string& model);
  ~ConfigText();
  ConfigText(const ConfigText&) = delete;
  ConfigText& operator=(const ConfigText&) = delete;

  /// The places of what it returns are in the text, not in a file. Throws Error (kConfig).
  Config load() const;
  /// Returns the variables of the configuration's model, in the order in which it creates them. Throws Error
  /// (kConfig), and the errors of data files that the model needs to be built.
  std::vector<Variable> variables() const;

 private:
  std::string text_;
  std::string name_;  ///< of the text, in messages
  std::string path_;  ///< a temporary file
};

}  // namespace mtf
