// Makes a model from YAML text.
//
//   const auto model = parse_model("{type: lm, d_model: 16, ...}");
#pragma once

#include <memory>
#include <string>

#include "engine/config/load.h"
#include "models/model.h"

namespace mtf::testing {

/// Throws Error with all mistakes of the text.
inline std::unique_ptr<Model> parse_model(const std::string& yaml) {
  Diagnostics diagnostics;
  auto model = make_model(config::parse_yaml(yaml, "model.yaml", diagnostics), diagnostics);
  diagnostics.throw_if_errors();
  return model;
}

}  // namespace mtf::testing
