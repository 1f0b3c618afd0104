// Kernels of expert_product and expert_outer_product: a thread computes one entry of the result, with a sum in float32 (or
// float64). Threads of a warp have neighbouring columns of one row, so that matrices are read in whole lines.
#include "engine/backend/cuda/device/device_kernel.h"
#include "engine/backend/cuda/device/element_walk.h"
#include "engine/backend/element.h"
#include "engine/backend/expert_rows.h"
#include "engine/ops/expert_product.h"

namespace mtf::cuda {
namespace {

template <class T>
struct MultiplyExpertRows {
  const T *x, *w;
  const int32_t* offsets;
  T* y;
  ExpertRows rows;
  int64_t in, expert_stride, in_stride, out_stride;
  Divisor out, capacity;

  /// The expert of place `place` of a segment; -1: the row belongs to nobody.
  MTF_DEVICE int64_t expert_of(int64_t segment, int64_t place) const {
    const int32_t* ends = offsets + segment * (rows.per_block + 1);
    if (place >= ends[rows.per_block]) return -1;
    int64_t low = 0, high = rows.per_block;
    while (high - low > 1) {
      const int64_t middle = (low + high) / 2;
      (ends[middle] <= place ? low : high) = middle;
    }
    return segment / rows.groups * rows.per_block + low;
  }

  MTF_DEVICE void operator()(const Block& block) const {
    const int64_t count = rows.segments() * rows.capacity * out.value();
    for (int64_t i = block.first(); i < count; i += block.stride()) {
      const Division row = out(i);
      const Division place = capacity(row.quotient);
      const int64_t expert = expert_of(place.quotient, place.remainder);
      Computed<T> sum{};
      if (expert >= 0) {
        const T* from = x + row.quotient * in;
        const T* column = w + expert * expert_stride + row.remainder * out_stride;
        for (int64_t k = 0; k < in; ++k) sum += widen(from[k]) * widen(column[k * in_stride]);
      }
      y[i] = narrow<T>(sum);
    }
  }
};

template <class T, class Out>
struct MultiplyExpertColumns {
  const T *x, *y;
  const int32_t* offsets;
  Out* dw;
  ExpertRows rows;
  Divisor in, out;

  MTF_DEVICE void operator()(const Block& block) const {
    const int64_t count = rows.experts() * in.value() * out.value();
    for (int64_t i = block.first(); i < count; i += block.stride()) {
      const Division entry = out(i);
      const Division at = in(entry.quotient);
      Computed<T> sum{};
      for (int64_t group = 0; group < rows.groups; ++group) {
        const int32_t* range = rows.range(offsets, at.quotient, group);
        const int64_t first = rows.segment(at.quotient, group) * rows.capacity;
        for (int64_t row = first + range[0]; row < first + range[1]; ++row)
          sum += widen(x[row * in.value() + at.remainder]) * widen(y[row * out.value() + entry.remainder]);
      }
      dw[i] = narrow<Out>(sum);
    }
  }
};

template <class T>
std::unique_ptr<Kernel> expert_product_kernel(const KernelContext& context, Device& device) {
  const LocalTensor &x = context.inputs[0], &w = context.inputs[1], &y = context.outputs[0];
  const ExpertRows rows(x, context.inputs[2]);
  const size_t in_axis = w.global[1] == x.global[x.global.rank() - 1] ? 1 : 2, out_axis = 3 - in_axis;
  const int64_t in = x.local[x.local.rank() - 1].size, out = y.local[y.local.rank() - 1].size;
  const MultiplyExpertRows<T> multiply{nullptr,
                                       nullptr,
                                       nullptr,
                                       nullptr,
                                       rows,
                                       in,
                                       w.strides[0],
                                       w.strides[in_axis],
                                       w.strides[out_axis],
                                       Divisor(out, y.local.size()),
                                       Divisor(rows.capacity, y.local.size() / out)};
  return make_device_kernel(
      device,
      [=](const Launcher& launch, const KernelCall& call) {
        MultiplyExpertRows<T> kernel = multiply;
        kernel.x = call.input<T>(0);
        kernel.w = call.input<T>(1);
        kernel.offsets = call.input<int32_t>(2);
        kernel.y = call.output<T>(0);
        launch(over(rows.segments() * rows.capacity * out, 1), kernel);
      },
      0, contraction_flops(context));
}

template <class T, class Out>
std::unique_ptr<Kernel> outer_product_into(const KernelContext& context, Device& device) {
  const Shape& dw = context.outputs[0].local;
  const MultiplyExpertColumns<T, Out> multiply{nullptr,
                                               nullptr,
                                               nullptr,
                                               nullptr,
                                               ExpertRows(context.inputs[0], context.inputs[2]),
                                               Divisor(dw[1].size, dw.size() / dw[2].size),
                                               Divisor(dw[2].size, dw.size())};
  const int64_t size = dw.size();
  return make_device_kernel(
      device,
      [=](const Launcher& launch, const KernelCall& call) {
        MultiplyExpertColumns<T, Out> kernel = multiply;
        kernel.x = call.input<T>(0);
        kernel.y = call.input<T>(1);
        kernel.offsets = call.input<int32_t>(2);
        kernel.dw = call.output<Out>(0);
        launch(over(size, 1), kernel);
      },
      0, contraction_flops(context));
}

template <class T>
std::unique_ptr<Kernel> outer_product_kernel(const KernelContext& context, Device& device) {
  if (context.outputs[0].dtype == DTypeOf<T>::value) return outer_product_into<T, T>(context, device);
  return outer_product_into<T, Computed<T>>(context, device);
}

template <class T>
struct ExpertProductKernels {
  static constexpr DType dtype = DTypeOf<T>::value;
  DeviceKernelRegistration product{"expert_product", {dtype}, expert_product_kernel<T>};
  DeviceKernelRegistration outer{"expert_outer_product", {dtype}, outer_product_kernel<T>};
};
const ExpertProductKernels<float> expert_product_f32;
const ExpertProductKernels<BFloat16> expert_product_bf16;
const ExpertProductKernels<double> expert_product_f64;

}  // namespace
}  // namespace mtf::cuda
