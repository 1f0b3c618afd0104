// Tests the values of the operation `reverse`. Its case (reverse_case.cc) tests gradient and layouts.
#include "tests/examples/reverse.h"

#include <gtest/gtest.h>

#include "tests/support/evaluate_tensors.h"

namespace mtf::testing {
namespace {

TEST(ExampleReverse, TurnsOneDimensionRound) {
  Graph graph;
  const Tensor x = graph.input("x", {{"a", 2}, {"b", 3}});
  EXPECT_EQ(evaluate(graph, {reverse(x, "b"), reverse(x, "a")}, {{"x", {1, 2, 3, 4, 5, 6}}}),
            (std::vector<Values>{{3, 2, 1, 6, 5, 4}, {4, 5, 6, 1, 2, 3}}));
}

}  // namespace
}  // namespace mtf::testing
