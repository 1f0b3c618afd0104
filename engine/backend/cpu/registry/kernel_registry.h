// The registry of CPU kernels, by operation name and dtype.
//
//   const KernelRegistration relu("relu", {DType::kFloat32}, [](const KernelContext& context) { ... });
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/backend/kernel.h"

namespace mtf {

/// A file-scope object that registers a CPU kernel under an operation's name for these dtypes
/// (Operation::kernel_dtype).
class KernelRegistration {
 public:
  KernelRegistration(std::string_view operation, std::initializer_list<DType> dtypes, KernelFactory factory);
};

/// Prepares the CPU kernel for the operation. Throws Error (kConfig) naming operation and dtype if there is
/// none.
std::unique_ptr<Kernel> prepare_cpu_kernel(const KernelContext& context);
bool has_cpu_kernel(std::string_view operation, DType dtype);
/// All (operation, dtype) pairs with a CPU kernel, sorted.
std::vector<std::pair<std::string, DType>> cpu_kernels();

}  // namespace mtf
