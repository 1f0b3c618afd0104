// Configurations that stand in a text rather than in a file: those of models that are converted.
//
//   const ConfigText text(model.config, "ende.safetensors");
//   const Config config = text.load();
#pragma once

#include <string>
#include <vector>

#include "engine/graph/variable.h"
#include "trainer/config/config.h"

namespace mtf {

/// The configuration in a file, of which only the model is needed: not what a training asks for, such as when
/// it ends, nor the files of its data. Throws Error (kConfig).
Config load_model_config(const std::string& path);

class ConfigText {
 public:
  /// `name` stands for the text in messages.
  ConfigText(const std::string& text, const std::string& name);
  ~ConfigText();
  ConfigText(const ConfigText&) = delete;
  ConfigText& operator=(const ConfigText&) = delete;

  /// Throws Error (kConfig).
  Config load() const;
  /// The variables of its model, in the order in which it makes them. Throws Error (kConfig), and that of
  /// files of data which the model needs to be built.
  std::vector<Variable> variables() const;

 private:
  std::string name_;
  std::string path_;  ///< a temporary file
};

}  // namespace mtf
