// Failures that a test injects into the emulated GPU.
//
//   MTF_EMULATED_FAULT=capture            a launch while work is recorded
//   MTF_EMULATED_FAULT=graph              making a graph of what was recorded
//   MTF_EMULATED_FAULT=kernel:Softmax:3   the third run of a kernel whose function object's type has this name in it
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "engine/base/error.h"

namespace mtf::cuda::emulator {

class FaultInjection {
 public:
  /// Reads the variable; aborts if its value is none of the above.
  FaultInjection();

  bool fails_capture() const { return kind_ == Kind::kCapture; }
  bool fails_graph() const { return kind_ == Kind::kGraph; }
  /// Counts a run of a kernel. True if this one fails: then the device has failed, as a GPU does until the process ends.
  bool fails_kernel(std::string_view name);
  bool looks_for_kernel() const { return kind_ == Kind::kKernel; }

  bool has_failed() const { return has_failed_; }
  /// Throws Error (kSystem) if a kernel has failed.
  void check(std::string_view doing) const;

 private:
  enum class Kind { kNone, kCapture, kGraph, kKernel };

  Kind kind_ = Kind::kNone;
  std::string kernel_;
  int64_t runs_left_ = 0;  ///< of the kernel, until it fails
  std::atomic<bool> has_failed_ = false;
};

}  // namespace mtf::cuda::emulator
