// Cases of operations with windows: convolutions and pooling.
#include "engine/ops/convolution.h"
#include "tests/support/operation_cases.h"

namespace mtf::testing {
namespace {

const Dimension batch{"batch", 2}, rows{"rows", 4}, cols{"cols", 6}, in{"in", 4}, out{"out", 2};

const CaseRegistration convolutions(
    "convolution transposed_convolution convolution_filter_gradient", [](CaseBuilder& c) {
      const Window over_rows = window_over(rows, {.filter = "k_rows", .size = 3});
      const Window over_cols =
          window_over(cols, {.filter = "k_cols", .size = 2, .stride = 2, .padding = Padding::valid()});
      return Tensors{convolution(c.input("x", {batch, rows, cols, in}),
                                 c.input("filter", {{"k_rows", 3}, {"k_cols", 2}, in, out}),
                                 {over_rows, over_cols})};
    });

const CaseRegistration in_groups("convolution transposed_convolution convolution_filter_gradient",
                                 [](CaseBuilder& c) {
                                   const Window window =
                                       window_over(cols, {.filter = "k", .size = 3, .dilation = 2});
                                   return Tensors{convolution(c.input("x", {batch, cols, in}),
                                                              c.input("filter", {{"k", 3}, in}), {window},
                                                              Shape{in})};
                                 });

const CaseRegistration transposed(
    "convolution transposed_convolution convolution_filter_gradient", [](CaseBuilder& c) {
      const Window window = window_onto(rows, {.filter = "k", .size = 3, .stride = 2});
      return Tensors{transposed_convolution(c.input("y", {batch, out, rows}),
                                            c.input("filter", {{"k", 3}, in, out}), {window})};
    });

}  // namespace
}  // namespace mtf::testing
