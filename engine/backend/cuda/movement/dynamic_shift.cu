// dynamic_shift: a shift by an offset that varies over other dimensions.
#include "engine/backend/broadcast_axes.h"
#include "engine/backend/cuda/device/device_kernel.h"
#include "engine/backend/cuda/device/words.h"
#include "engine/ops/shift.h"

namespace mtf::cuda {
namespace {

template <class Word>
struct ShiftWords {
  const Word* x;
  const int32_t* offset;
  Word* y;
  Strided<2> walk;  ///< over x and y: offset, index along the dimension
  Divisor n;        ///< size of the dimension; for dividends below 2^32 + n
  int64_t stride;
  bool wrap, backward;

  MTF_DEVICE void operator()(const Block& block) const {
    move_entries(
        block, walk.size(),
        [&](int64_t i) {
          const Offsets<2> at = walk.at(i);
          const int64_t given = offset[at[0]];
          int64_t from = at[1] - (backward ? -given : given);
          if (wrap) {
            from = from >= 0 ? n(from).remainder : n.value() - 1 - n(-1 - from).remainder;
          }
          return from >= 0 && from < n.value() ? x[i + (from - at[1]) * stride] : Word{};
        },
        [&](int64_t i, Word word) { y[i] = word; });
  }
};

std::unique_ptr<Kernel> dynamic_shift_kernel(const KernelContext& context, Device& device) {
  const auto& operation = static_cast<const DynamicShift&>(context.operation);
  const LocalTensor &x = context.inputs[0], &offset = context.inputs[1];
  StridedAxes<2> axes;
  for (const Dimension& d : x.local)
    axes.push_back({d.size, {stride_of(offset, d.name), d.name == operation.dimension ? 1 : 0}});
  const int64_t n = x.local.dimension(operation.dimension).size, stride = stride_of(x, operation.dimension);
  const WordWalk<2> words(axes, 0, static_cast<int64_t>(size_of(x.dtype)), {stride});
  const Strided<2> walk(words.axes);
  const Divisor places(n, (int64_t{1} << 32) + n);
  const bool wrap = operation.wrap, backward = operation.backward;
  return make_device_kernel(device, [=](const Launcher& launch, const KernelCall& call) {
    with_word(words.word, [&]<class Word>(Word) {
      launch(over(walk.size()),
             ShiftWords<Word>{call.input<Word>(0), call.input<int32_t>(1), call.output<Word>(0), walk, places,
                              stride / words.elements, wrap, backward});
    });
  });
}

const DeviceKernelRegistration dynamic_shift_kernels("dynamic_shift", kAllTypes, dynamic_shift_kernel);

}  // namespace
}  // namespace mtf::cuda
