// Optimizers from their YAML.
//
//   const Optimizer optimizer = parse_optimizer("{type: adam, beta1: 0}");
#pragma once

#include <string>

#include "engine/config/load.h"
#include "trainer/optimizer/optimizer.h"

namespace mtf::testing {

/// Throws Error for what is no optimizer.
inline Optimizer parse_optimizer(const std::string& yaml) {
  Diagnostics diagnostics;
  const config::Node node = config::parse_yaml(yaml, "test.yaml", diagnostics);
  Optimizer optimizer = config::parse<Optimizer>(node, diagnostics);
  diagnostics.throw_if_errors();
  return optimizer;
}

}  // namespace mtf::testing
