// Kernels of the graph's own operations (engine/graph/structural.h).
#include <bit>

#include "engine/backend/broadcast_axes.h"
#include "engine/backend/cuda/device/device_kernel.h"
#include "engine/backend/cuda/device/element_walk.h"
#include "engine/backend/cuda/movement/copy_blocks.h"
#include "engine/backend/element.h"
#include "engine/graph/structural.h"

namespace mtf::cuda {
namespace {

template <class T>
struct Fill {
  T* y;
  T value;
  int64_t size;

  MTF_DEVICE void operator()(const Block& block) const {
    for_each_part<kPack<T>>(block, size, true,
                            [&](int64_t first, bool pack) { pack ? fill<kPack<T>>(first) : fill<1>(first); });
  }
  template <int N>
  MTF_DEVICE void fill(int64_t first) const {
    Pack<T, N> pack;
    MTF_UNROLL(N)
    for (int i = 0; i < N; ++i) pack[i] = value;
    store(y + first, pack);
  }
};

/// Element is an unsigned integer of T's size, so that types of one size share a kernel.
template <class T, class Element>
std::unique_ptr<Kernel> constant_of(const KernelContext& context, Device& device) {
  const auto value = std::bit_cast<Element>(narrow<T>(static_cast<const Constant&>(context.operation).value));
  const int64_t size = context.outputs[0].local.size();
  return make_device_kernel(device, [=](const Launcher& launch, const KernelCall& call) {
    launch(over_packs<kPack<Element>>(size), Fill<Element>{call.output<Element>(0), value, size});
  });
}

std::unique_ptr<Kernel> constant_kernel(const KernelContext& context, Device& device) {
  switch (context.outputs[0].dtype) {
    case DType::kFloat32:
      return constant_of<float, uint32_t>(context, device);
    case DType::kBFloat16:
      return constant_of<BFloat16, uint16_t>(context, device);
    case DType::kFloat64:
      return constant_of<double, uint64_t>(context, device);
    case DType::kInt32:
      return constant_of<int32_t, uint32_t>(context, device);
    case DType::kInt64:
      return constant_of<int64_t, uint64_t>(context, device);
    case DType::kBool:
      return constant_of<bool, uint8_t>(context, device);
    case DType::kInt8:
    case DType::kUInt8:
      break;
  }
  return nullptr;
}

/// The number of terms that one launch adds: their pointers are its parameters.
constexpr int kTerms = 32;

/// Adds the terms in order; each partial sum is rounded to T.
template <class T>
struct AddTerms {
  const T* terms[kTerms];
  int count;
  T* total;
  int64_t size;

  MTF_DEVICE void operator()(const Block& block) const {
    for_each_part<kPack<T>>(block, size, true,
                            [&](int64_t first, bool pack) { pack ? add<kPack<T>>(first) : add<1>(first); });
  }
  template <int N>
  MTF_DEVICE void add(int64_t first) const {
    Pack<T, N> sum = load<N>(terms[0] + first);
    for (int t = 1; t < count; ++t) {
      const Pack<T, N> term = load<N>(terms[t] + first);
      MTF_UNROLL(N)
      for (int i = 0; i < N; ++i) sum[i] = narrow<T>(widen(sum[i]) + widen(term[i]));
    }
    store(total + first, sum);
  }
};

template <class T>
std::unique_ptr<Kernel> add_n_kernel(const KernelContext& context, Device& device) {
  const int terms = static_cast<int>(context.inputs.size());
  const int64_t size = context.outputs[0].local.size();
  return make_device_kernel(device, [=](const Launcher& launch, const KernelCall& call) {
    for (int added = 0; added < terms;) {
      AddTerms<T> body{{}, 0, call.output<T>(0), size};
      if (added > 0) body.terms[body.count++] = body.total;
      while (body.count < kTerms && added < terms) body.terms[body.count++] = call.input<T>(added++);
      launch(over_packs<kPack<T>>(size), body);
    }
  });
}

/// Moves microbatch `iteration` from the whole batch (strided) to its own dense tensor.
std::unique_ptr<Kernel> microbatch_slice_kernel(const KernelContext& context, Device& device) {
  const Microbatching& microbatching = static_cast<const MicrobatchSlice&>(context.operation).microbatching;
  const LocalTensor& part = context.outputs[0];
  const int axis = *part.local.find(microbatching.dimension);
  const int64_t count = microbatching.count;
  const int64_t inner = part.local.strides()[axis] * static_cast<int64_t>(size_of(part.dtype));
  const int64_t rows = bytes_of(part.local, part.dtype) / inner;
  return make_device_kernel(device, [=](const Launcher& launch, const KernelCall& call) {
    const BlockCopy copy{.from = call.input<std::byte>(0) + call.iteration * inner,
                         .to = call.output<std::byte>(0),
                         .rows = rows,
                         .length = inner,
                         .from_row = count * inner,
                         .to_row = inner};
    copy_blocks(launch, {&copy, 1});
  });
}

const DeviceKernelRegistration constants("constant", kAllTypes, constant_kernel);
const DeviceKernelRegistration add_n_f32("add_n", {DType::kFloat32}, add_n_kernel<float>);
const DeviceKernelRegistration add_n_bf16("add_n", {DType::kBFloat16}, add_n_kernel<BFloat16>);
const DeviceKernelRegistration add_n_f64("add_n", {DType::kFloat64}, add_n_kernel<double>);
const DeviceKernelRegistration add_n_i32("add_n", {DType::kInt32}, add_n_kernel<int32_t>);
const DeviceKernelRegistration microbatch_slices("microbatch_slice", kAllTypes, microbatch_slice_kernel);

}  // namespace
}  // namespace mtf::cuda
