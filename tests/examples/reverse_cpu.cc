// Entries of a dimension are blocks of bytes, whatever their type; each is copied to its new place.
#include <algorithm>
#include <cstring>

#include "engine/backend/cpu/registry/kernel_registry.h"
#include "tests/examples/reverse.h"

namespace mtf {
namespace {

constexpr int64_t kBytesPerTask = 1 << 17;

std::unique_ptr<Kernel> reverse_kernel(const KernelContext& context) {
  const auto& operation = static_cast<const Reverse&>(context.operation);
  const Shape& local = context.inputs[0].local;
  const int axis = *local.find(operation.dimension);
  const int64_t n = local[axis].size, inner = local.strides()[axis], blocks = local.size() / inner;
  const int64_t bytes = inner * static_cast<int64_t>(size_of(context.inputs[0].dtype));
  return make_kernel(blocks, std::max<int64_t>(1, kBytesPerTask / bytes),
                     [=](const KernelCall& call, int64_t begin, int64_t end) {
                       for (int64_t block = begin; block < end; ++block) {
                         const int64_t from = block + n - 1 - 2 * (block % n);
                         std::memcpy(call.output<std::byte>(0) + block * bytes,
                                     call.input<std::byte>(0) + from * bytes, static_cast<size_t>(bytes));
                       }
                     });
}

const KernelRegistration reverse_registration("reverse", kAllTypes, reverse_kernel);

}  // namespace
}  // namespace mtf
