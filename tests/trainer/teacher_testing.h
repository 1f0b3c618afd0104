// Weights for a model that is trained beside a teacher or a reference model.
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <string>

#include "engine/base/hash.h"
#include "engine/graph/graph.h"
#include "tests/support/operation_cases.h"

namespace mtf::testing {

/// Values for the constants of a graph, or with `prefix` for all variables of a teacher that stands alone.
inline std::map<std::string, Values> teacher_weights(const Graph& graph, const std::string& prefix = "") {
  std::map<std::string, Values> values;
  for (const auto& variable : graph.variables()) {
    if (prefix.empty() && variable->kind != Variable::Kind::kConstant) continue;
    const uint64_t hash = hash64(prefix + variable->name) % 1000;
    for (int64_t i = 0; i < variable->shape.size(); ++i)
      values[variable->name].push_back(0.4 *
                                       std::sin(static_cast<double>(hash) + 1.7 * static_cast<double>(i)));
  }
  return values;
}

}  // namespace mtf::testing
