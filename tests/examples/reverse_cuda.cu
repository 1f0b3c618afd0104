// One thread copies some elements. Element is an unsigned integer of the type's size, so that types of one
// size share a kernel.
#include "engine/backend/cuda/device/device_kernel.h"
#include "engine/backend/cuda/device/element_walk.h"
#include "tests/examples/reverse.h"

namespace mtf::cuda {
namespace {

template <class Element>
struct ReverseElements {
  const Element* x;
  Element* y;
  int64_t size, n, inner;  ///< elements in all, along the dimension, and in one of its entries
  Divisor by_inner, by_n;

  MTF_DEVICE void operator()(const Block& block) const {
    for (int64_t i = block.first(); i < size; i += block.stride()) {
      const int64_t entry = by_n(by_inner(i).quotient).remainder;
      y[i] = x[i + (n - 1 - 2 * entry) * inner];
    }
  }
};

template <class Element>
std::unique_ptr<Kernel> reverse_of(const KernelContext& context, Device& device) {
  const auto& operation = static_cast<const Reverse&>(context.operation);
  const Shape& local = context.inputs[0].local;
  const int axis = *local.find(operation.dimension);
  const int64_t size = local.size(), n = local[axis].size, inner = local.strides()[axis];
  const Divisor by_inner(inner, size), by_n(n, size / inner);
  return make_device_kernel(device, [=](const Launcher& launch, const KernelCall& call) {
    launch(over(size), ReverseElements<Element>{call.input<Element>(0), call.output<Element>(0), size, n,
                                                inner, by_inner, by_n});
  });
}

std::unique_ptr<Kernel> reverse_kernel(const KernelContext& context, Device& device) {
  switch (size_of(context.inputs[0].dtype)) {
    case 1:
      return reverse_of<uint8_t>(context, device);
    case 2:
      return reverse_of<uint16_t>(context, device);
    case 4:
      return reverse_of<uint32_t>(context, device);
    default:
      return reverse_of<uint64_t>(context, device);
  }
}

const DeviceKernelRegistration reverse_registration("reverse", kAllTypes, reverse_kernel);

}  // namespace
}  // namespace mtf::cuda
