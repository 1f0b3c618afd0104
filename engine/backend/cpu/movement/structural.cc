// Kernels of the graph's own operations (engine/graph/structural.h).
#include "engine/graph/structural.h"

#include <cstring>

#include "engine/backend/cpu/registry/kernel_registry.h"
#include "engine/backend/element.h"

namespace mtf {
namespace {

template <class T>
std::unique_ptr<Kernel> constant_kernel(const KernelContext& context) {
  const T value = narrow<T>(static_cast<const Constant&>(context.operation).value);
  return make_kernel(context.outputs[0].local.size(), kElementsPerTask,
                     [value](const KernelCall& call, int64_t begin, int64_t end) {
                       std::fill(call.output<T>(0) + begin, call.output<T>(0) + end, value);
                     });
}

/// Adds the terms in order, block by block, so that a block of the sum stays in cache.
template <class T>
std::unique_ptr<Kernel> add_n_kernel(const KernelContext& context) {
  const size_t terms = context.inputs.size();
  return make_kernel(context.outputs[0].local.size(), kElementsPerTask,
                     [terms](const KernelCall& call, int64_t begin, int64_t end) {
                       T* total = call.output<T>(0);
                       const T* first = call.input<T>(0);
                       if (terms == 1) std::copy(first + begin, first + end, total + begin);
                       for (size_t t = 1; t < terms; ++t) {
                         const T* left = t == 1 ? first : total;
                         const T* term = call.input<T>(static_cast<int>(t));
                         for (int64_t i = begin; i < end; ++i)
                           total[i] = narrow<T>(widen(left[i]) + widen(term[i]));
                       }
                     });
}

/// Moves microbatch `iteration` between the whole batch (strided) and its own dense tensor.
std::unique_ptr<Kernel> microbatch_slice_kernel(const KernelContext& context) {
  const Microbatching& microbatching = static_cast<const MicrobatchSlice&>(context.operation).microbatching;
  const LocalTensor& part = context.outputs[0];
  const int axis = *part.local.find(microbatching.dimension);
  const int64_t count = microbatching.count;
  const int64_t inner = part.local.strides()[axis] * static_cast<int64_t>(size_of(part.dtype));
  const int64_t rows = bytes_of(part.local, part.dtype) / inner;
  return make_kernel(rows, std::max<int64_t>(1, 65536 / inner),
                     [=](const KernelCall& call, int64_t begin, int64_t end) {
                       for (int64_t row = begin; row < end; ++row) {
                         const int64_t source = row * count + call.iteration;
                         std::memcpy(call.output<std::byte>(0) + row * inner,
                                     call.input<std::byte>(0) + source * inner, static_cast<size_t>(inner));
                       }
                     });
}

const KernelRegistration constant_f32("constant", {DType::kFloat32}, constant_kernel<float>);
const KernelRegistration constant_bf16("constant", {DType::kBFloat16}, constant_kernel<BFloat16>);
const KernelRegistration constant_f64("constant", {DType::kFloat64}, constant_kernel<double>);
const KernelRegistration constant_i32("constant", {DType::kInt32}, constant_kernel<int32_t>);
const KernelRegistration constant_i64("constant", {DType::kInt64}, constant_kernel<int64_t>);
const KernelRegistration constant_bool("constant", {DType::kBool}, constant_kernel<bool>);
const KernelRegistration add_n_f32("add_n", {DType::kFloat32}, add_n_kernel<float>);
const KernelRegistration add_n_bf16("add_n", {DType::kBFloat16}, add_n_kernel<BFloat16>);
const KernelRegistration add_n_f64("add_n", {DType::kFloat64}, add_n_kernel<double>);
const KernelRegistration add_n_i32("add_n", {DType::kInt32}, add_n_kernel<int32_t>);
const KernelRegistration microbatch_slices("microbatch_slice", kAllTypes, microbatch_slice_kernel);

}  // namespace
}  // namespace mtf
