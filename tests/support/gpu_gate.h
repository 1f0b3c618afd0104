// Decides what a missing GPU means for a test program: exit code 77, which CTest counts as skipped, or a failure.
#pragma once

#include <functional>

namespace mtf::testing {

/// The exit code of a test that is skipped.
inline constexpr int kSkipped = 77;

/// True if MTF_REQUIRE_GPU is 1: then tests that lack a GPU or one of its libraries fail.
bool is_gpu_required();

/// Calls `look`, which looks for a GPU. If the machine has no driver or no device (ErrorKind::kNoDevice) and none is
/// required, the process ends with kSkipped; every other error is thrown.
void skip_without_gpu(const std::function<void()>& look);

/// Called after the last test: if some were skipped and none has failed, the process will end with kSkipped.
void exit_as_skipped_after_skips();

}  // namespace mtf::testing
