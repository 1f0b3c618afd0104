// Initial values of weights that a test can write down: a sine over the elements.
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <string>

#include "engine/graph/graph.h"
#include "tests/support/golden.h"

namespace mtf::testing {

/// Returns 0.1 sin(0.7 i + 1) for element i of each trainable variable; scales of norms are greater by 1.
inline std::map<std::string, Values> sine_weights(const Graph& graph) {
  std::map<std::string, Values> result;
  for (const auto& variable : graph.variables()) {
    if (!variable->trainable()) continue;
    const double shift = variable->name.ends_with("scale") ? 1 : 0;
    Values& values = result[variable->name];
    for (int64_t i = 0; i < variable->shape.size(); ++i)
      values.push_back(0.1 * std::sin(0.7 * static_cast<double>(i) + 1) + shift);
  }
  return result;
}

}  // namespace mtf::testing
