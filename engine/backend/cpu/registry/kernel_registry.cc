#include "engine/backend/cpu/registry/kernel_registry.h"

#include "engine/backend/kernel_table.h"

namespace mtf {
namespace {

KernelTable<KernelFactory>& table() {
  static KernelTable<KernelFactory> kernels("CPU");
  return kernels;
}

}  // namespace

KernelRegistration::KernelRegistration(std::string_view operation, std::initializer_list<DType> dtypes,
                                       KernelFactory factory) {
  table().add(operation, dtypes, factory);
}

std::unique_ptr<Kernel> prepare_cpu_kernel(const KernelContext& context) {
  const Operation& operation = context.operation;
  MTF_CHECK(!context.accumulates, "{} cannot add to its output here", operation.name());
  return table().factory(operation, "choose another type in `precision`")(context);
}

bool has_cpu_kernel(std::string_view operation, DType dtype) { return table().contains(operation, dtype); }

std::vector<std::pair<std::string, DType>> cpu_kernels() { return table().keys(); }

}  // namespace mtf
