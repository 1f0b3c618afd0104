// Cases of what networks for images are made of: convolutions, pooling, normalisation over several dimensions.
#include "engine/ops/affine.h"
#include "engine/ops/cast.h"
#include "engine/ops/convolution.h"
#include "engine/ops/moments.h"
#include "engine/ops/pool.h"
#include "engine/ops/statistics_norm.h"
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

const CaseRegistration in_tiles(
    "convolution transposed_convolution convolution_filter_gradient", [](CaseBuilder& c) {
      const Dimension many{"in", 16}, wide{"out", 18};
      const std::vector<Window> windows{window_over(rows, {.filter = "k_rows", .size = 3}),
                                        window_over(cols, {.filter = "k_cols", .size = 3})};
      return Tensors{convolution(c.input("x", {rows, batch, cols, many}),
                                 c.input("filter", {{"k_rows", 3}, {"k_cols", 3}, many, wide}), windows)};
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

const CaseRegistration pooling("window_sum window_spread window_max window_max_gradient", [](CaseBuilder& c) {
  const Tensor x = c.input("x", {batch, rows, cols, in});
  const std::vector<Window> windows{window_over(rows, {.size = 3}),
                                    window_over(cols, {.size = 3, .stride = 2})};
  const Tensor y = c.input("y", {batch, rows, cols});
  return Tensors{window_max(x, windows), window_mean(x, windows), window_sum(y, windows, 0.5),
                 spread(x, {window_onto(rows, {.size = 2, .stride = 2})}),
                 window_sum(x, {window_over(in, {.size = 3})})};
});

const CaseRegistration coefficients("affine moments", [](CaseBuilder& c) {
  const Tensor x = c.input("x", {batch, rows, in}), y = c.input("y", {batch, rows, in});
  const Tensor scale = c.input("scale", {in, batch}), shift = c.input("shift", {in, batch});
  const MomentSums over_rows = moments(x, y, {in, batch}), over_last = moments(x, y, {rows});
  return Tensors{affine(x, scale, shift), affine(x, scale, y, shift, scale), cast(over_rows.sum, c.floating),
                 cast(over_rows.product, c.floating), cast(over_last.product, c.floating)};
});

const CaseRegistration norms("statistics_norm", [](CaseBuilder& c) {
  const Tensor x = c.input("x", {batch, cols, in});
  const Tensor scale = c.input("scale", {in}), bias = c.input("bias", {in});
  return Tensors{normalize(x, {in}, scale, bias, 1e-3).y, normalize(x, {batch, in}, scale, bias, 1e-3).y,
                 normalize(x, {batch}, scale, bias, 1e-3).y};
});

}  // namespace
}  // namespace mtf::testing
