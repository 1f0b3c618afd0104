// Cases of the graph's own operations.
#include "engine/graph/structural.h"
#include "engine/ops/binary.h"
#include "tests/support/operation_cases.h"

namespace mtf::testing {
namespace {

const CaseRegistration add_n_case("add_n", [](CaseBuilder& c) {
  const Shape shape{{"a", 4}, {"b", 6}};
  return Tensors{add_n({c.input("x", shape), c.input("y", shape), c.input("z", shape)})};
});

const CaseRegistration constant_case("constant", [](CaseBuilder& c) {
  const Shape shape{{"a", 4}, {"b", 6}};
  return Tensors{multiply(c.input("x", shape), c.graph.constant(2.5, c.floating, shape))};
});

/// Gradients do not pass through a loop, so it is tested with whole numbers.
const CaseRegistration microbatch_slice_case("microbatch_slice", [](CaseBuilder& c) {
  const Tensor x = c.ids("x", {{"batch", 12}, {"a", 4}}, 0, 100);
  return repeat(c.graph, 2, {}, {"batch", 2}, [&](const Tensors&) {
    return LoopResult{{}, {}, {microbatch_slice(x)}};
  });
});

}  // namespace
}  // namespace mtf::testing
