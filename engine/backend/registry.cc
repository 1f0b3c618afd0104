#include <fmt/format.h>

#include <map>

#include "engine/backend/kernel.h"
#include "engine/core/check.h"

namespace mtf {
namespace {

using Key = std::pair<std::string, DType>;

/// Filled by the registration objects before main() starts, only read afterwards.
std::map<Key, KernelFactory>& registry() {
  static std::map<Key, KernelFactory> kernels;
  return kernels;
}

}  // namespace

KernelRegistration::KernelRegistration(std::string_view operation, std::initializer_list<DType> dtypes,
                                       KernelFactory factory) {
  for (DType dtype : dtypes) {
    const bool added = registry().emplace(Key(operation, dtype), factory).second;
    MTF_CHECK(added, "two CPU kernels for {} {}", operation, short_name(dtype));
  }
}

std::unique_ptr<Kernel> prepare_cpu_kernel(const KernelContext& context) {
  const Operation& operation = context.operation;
  MTF_CHECK(!context.accumulates, "{} cannot add to its output here", operation.name());
  const auto found = registry().find(Key(operation.name(), operation.kernel_dtype()));
  if (found == registry().end()) {
    throw Error(ErrorKind::kConfig, operation.provenance().mark,
                fmt::format("operation {} has no CPU kernel for {}", operation.name(),
                            name_of(operation.kernel_dtype())),
                "choose another type in `precision`");
  }
  return found->second(context);
}

bool has_cpu_kernel(std::string_view operation, DType dtype) {
  return registry().contains(Key(operation, dtype));
}

std::vector<std::pair<std::string, DType>> cpu_kernels() {
  std::vector<std::pair<std::string, DType>> result;
  for (const auto& [key, factory] : registry()) result.push_back(key);
  return result;
}

}  // namespace mtf
