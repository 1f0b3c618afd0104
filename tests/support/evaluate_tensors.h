// Runs a graph on one position, operation by operation, directly with the CPU kernels. This is the reference
// for the partitioner and the executor, and the quickest way to test a kernel.
//
//   Graph graph;
//   Tensor x = graph.input("x", {{"a", 2}});
//   EXPECT_EQ(evaluate(graph, {relu(x)}, {{"x", {-1, 2}}})[0], (Values{0, 2}));
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "engine/graph/graph.h"
#include "tests/support/operation_cases.h"

namespace mtf::testing {

inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The n values first, first + 1, ...
Values count_from(double first, int64_t n);

struct EvaluateOptions {
  uint64_t seed = 1;
  uint64_t step = 0;
  std::map<std::string, Values> variables;  ///< initial values; zero if absent
};

/// The values of `tensors` for these inputs.
std::vector<Values> evaluate(const Graph& graph, const Tensors& tensors,
                             const std::map<std::string, Values>& feeds, const EvaluateOptions& options = {});

/// The values of the variables after the assignments of one step.
std::map<std::string, Values> evaluate_step(const Graph& graph, const std::map<std::string, Values>& feeds,
                                            const EvaluateOptions& options = {});

}  // namespace mtf::testing
