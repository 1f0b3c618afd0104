#include "tests/emulated_gpu/fault.h"

#include <fmt/format.h>

#include <cstdlib>

#include "engine/backend/cuda/device/submission.h"
#include "engine/base/check.h"

namespace mtf::cuda::emulator {

FaultInjection::FaultInjection() {
  const char* value = std::getenv("MTF_EMULATED_FAULT");
  const std::string text = value == nullptr ? "" : value;
  if (text.empty()) return;
  if (text == "capture") {
    kind_ = Kind::kCapture;
  } else if (text == "graph") {
    kind_ = Kind::kGraph;
  } else {
    const size_t name = text.find(':'), count = text.rfind(':');
    MTF_CHECK(text.starts_with("kernel:") && count > name, "MTF_EMULATED_FAULT is {}", text);
    kind_ = Kind::kKernel;
    kernel_ = text.substr(name + 1, count - name - 1);
    runs_left_ = std::atoll(text.c_str() + count + 1);
  }
}

bool FaultInjection::fails_kernel(std::string_view name) {
  if (name.find(kernel_) == std::string_view::npos || --runs_left_ != 0) return false;
  has_failed_ = true;
  return true;
}

void FaultInjection::check(std::string_view doing) const {
  if (!has_failed_) return;
  throw Error(
      ErrorKind::kSystem,
      fmt::format("CUDA, {}: an illegal memory access was encountered (cudaErrorIllegalAddress)", doing),
      failed_kernel_hint());
}

}  // namespace mtf::cuda::emulator
