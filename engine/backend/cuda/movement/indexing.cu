// Kernels of one_hot, range and gather.
#include "engine/backend/broadcast_axes.h"
#include "engine/backend/cuda/device/device_kernel.h"
#include "engine/backend/cuda/device/words.h"
#include "engine/backend/element.h"
#include "engine/backend/visit_type.h"
#include "engine/ops/indexing.h"

namespace mtf::cuda {
namespace {

template <class T>
struct FillOneHot {
  const int32_t* ids;
  T* y;
  int64_t size, first;  ///< first: index of this slice's first entry along the dimension
  Divisor n;
  T on, off;

  MTF_DEVICE void operator()(const Block& block) const {
    for_each_pack<kPack<T>>(block, size, [&](int64_t begin, int count) {
      const Division at = n(begin);
      int64_t row = at.quotient, entry = at.remainder;
      int64_t id = ids[row] - first;
      Pack<T, kPack<T>> pack;
      for (int i = 0; i < kPack<T>; ++i) {
        pack[i] = id == entry ? on : off;
        if (++entry == n.value() && i + 1 < count) {
          entry = 0;
          id = ids[++row] - first;
        }
      }
      store(y + begin, pack, count);
    });
  }
};

template <class T>
std::unique_ptr<Kernel> one_hot_into(const KernelContext& context, Device& device) {
  const auto& operation = static_cast<const OneHot&>(context.operation);
  const Shape& local = context.outputs[0].local;
  const int axis = local.rank() - 1;
  const int64_t size = local.size();
  const Divisor n(local[axis].size, size);
  const T on = narrow<T>(operation.on), off = narrow<T>(operation.off);
  return make_device_kernel(device, [=](const Launcher& launch, const KernelCall& call) {
    launch(over_packs<kPack<T>>(size), FillOneHot<T>{call.input<int32_t>(0), call.output<T>(0), size,
                                                     call.outputs[0].begin[axis], n, on, off});
  });
}

std::unique_ptr<Kernel> one_hot_kernel(const KernelContext& context, Device& device) {
  return visit_any_type(context.outputs[0].dtype,
                        [&]<class T>(std::type_identity<T>) { return one_hot_into<T>(context, device); });
}

template <class T>
struct Count {
  T* y;
  int64_t size, first;

  MTF_DEVICE void operator()(const Block& block) const {
    for (int64_t i = block.first(); i < size; i += block.stride()) y[i] = narrow<T>(first + i);
  }
};

template <class T>
std::unique_ptr<Kernel> range_kernel(const KernelContext& context, Device& device) {
  const int64_t size = context.outputs[0].local.size();
  return make_device_kernel(device, [size](const Launcher& launch, const KernelCall& call) {
    launch(over(size), Count<T>{call.output<T>(0), size, call.outputs[0].begin[0]});
  });
}

/// Copies the entry that the id selects, or zeros if this position's slice of the table does not have it.
template <class Word>
struct GatherWords {
  const Word* table;
  const int32_t* ids;
  Word* y;
  Strided<2> walk;  ///< over y: words of the table, ids
  int64_t first, n, stride;

  MTF_DEVICE void operator()(const Block& block) const {
    move_entries(
        block, walk.size(),
        [&](int64_t i) {
          const Offsets<2> at = walk.at(i);
          const int64_t id = ids[at[1]] - first;
          return id >= 0 && id < n ? table[at[0] + id * stride] : Word{};
        },
        [&](int64_t i, Word word) { y[i] = word; });
  }
};

std::unique_ptr<Kernel> gather_kernel(const KernelContext& context, Device& device) {
  const auto& operation = static_cast<const Gather&>(context.operation);
  const LocalTensor &table = context.inputs[0], &ids = context.inputs[1];
  const int axis = *table.local.find(operation.dimension);
  const int64_t n = table.local[axis].size, stride = table.local.strides()[axis];
  StridedAxes<2> axes;
  for (const Dimension& d : context.outputs[0].local)
    axes.push_back({d.size, {stride_of(table, d.name), stride_of(ids, d.name)}});
  const WordWalk<2> words(axes, 0b01, static_cast<int64_t>(size_of(table.dtype)), {stride});
  const Strided<2> walk(words.axes);
  return make_device_kernel(device, [=](const Launcher& launch, const KernelCall& call) {
    const int64_t first = call.inputs[0].begin[axis];
    with_word(words.word, [&]<class Word>(Word) {
      launch(over(walk.size()),
             GatherWords<Word>{call.input<Word>(0), call.input<int32_t>(1), call.output<Word>(0), walk, first,
                               n, stride / words.elements});
    });
  });
}

const DeviceKernelRegistration one_hot_kernels("one_hot", {DType::kInt32}, one_hot_kernel);
const DeviceKernelRegistration range_f32("range", {DType::kFloat32}, range_kernel<float>);
const DeviceKernelRegistration range_bf16("range", {DType::kBFloat16}, range_kernel<BFloat16>);
const DeviceKernelRegistration range_f64("range", {DType::kFloat64}, range_kernel<double>);
const DeviceKernelRegistration range_i32("range", {DType::kInt32}, range_kernel<int32_t>);
const DeviceKernelRegistration range_i64("range", {DType::kInt64}, range_kernel<int64_t>);
const DeviceKernelRegistration gather_kernels("gather", kNumberTypes, gather_kernel);

}  // namespace
}  // namespace mtf::cuda
