// Weights for a model that is trained beside a teacher or a reference model, and steps of it.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <map>
#include <string>

#include "engine/base/hash.h"
#include "engine/graph/graph.h"
#include "engine/spmd/partition/partition.h"
#include "tests/support/operation_cases.h"
#include "tests/support/run_on_mesh.h"
#include "trainer/session/step.h"

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

/// Runs three steps, each with another dropout. Returns their outputs as "STEP NAME", and the variables at the end. Throws Error
/// if the layouts are illegal.
inline std::map<std::string, Values> run_taught_steps(const TrainStep& step, const Layouts& layouts,
                                                      std::map<std::string, Values> feeds, int processes) {
  Diagnostics diagnostics;
  check_layouts(*step.graph, layouts, diagnostics);
  diagnostics.throw_if_errors();
  MeshRunOptions run{.variables = teacher_weights(*step.graph)};
  std::map<std::string, Values> results;
  for (int64_t i = 0; i < 3; ++i) {
    for (const StepScalar& scalar : step.scalars) feeds[scalar.input] = {scalar.value(i)};
    run.seed = static_cast<uint64_t>(1 + i);
    const MeshRun after = processes == 1 ? run_on_mesh(*step.graph, layouts, feeds, run)
                                         : run_on_processes(processes, *step.graph, layouts, feeds, run)[0];
    run.variables = after.variables;
    for (const auto& [name, values] : after.outputs) results[fmt::format("{} {}", i, name)] = values;
  }
  results.insert(run.variables.begin(), run.variables.end());
  return results;
}

}  // namespace mtf::testing
