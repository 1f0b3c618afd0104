// The example of the operation `reverse`, from which its gradient, layout and completeness tests are made.
#include "tests/examples/reverse.h"
#include "tests/support/operation_cases.h"

namespace mtf::testing {
namespace {

const CaseRegistration reverse_case("reverse", [](CaseBuilder& c) {
  const Tensor x = c.input("x", {{"batch", 4}, {"length", 6}, {"d", 4}});
  return Tensors{reverse(x, "length"), reverse(x, "d")};
});

}  // namespace
}  // namespace mtf::testing
