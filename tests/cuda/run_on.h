// Runs programs on a device and returns the bits of all outputs and variables.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>

#include "engine/runtime/executor.h"
#include "tests/cuda/kernel_comparison.h"
#include "tests/support/run_on_mesh.h"

namespace mtf::testing {

/// Outputs and variables, by name.
using Results = std::map<std::string, HostTensor>;

/// The results of three steps, the last two of which a device records and replays.
inline Results run_on(Backend& backend, const Program& program, const std::map<std::string, Values>& feeds) {
  VariableStore variables(backend, program.mesh, program.variables);
  variables.initialize(1);
  Executor executor(program, backend, variables, {.seed = 7});
  for (const auto& [name, id] : program.inputs) {
    const Value& value = program.values[id];
    executor.feed(name, to_host(value.shape, value.dtype, feeds.at(name)).bytes.data());
  }
  for (uint64_t step = 0; step < 3; ++step) executor.run(step);
  Results results;
  for (const auto& [name, id] : program.outputs) results.emplace(name, executor.fetch(name));
  for (const std::string& name : variables.names()) results.emplace(name, variables.get(name));
  return results;
}

inline void expect_same_bits(const Results& actual, const Results& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (const auto& [name, tensor] : expected)
    expect_same_values(name, actual.at(name).bytes, tensor.bytes, tensor.dtype, 0);
}

}  // namespace mtf::testing
