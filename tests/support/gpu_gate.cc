#include "tests/support/gpu_gate.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "engine/base/error.h"

namespace mtf::testing {

bool is_gpu_required() {
  const char* value = std::getenv("MTF_REQUIRE_GPU");
  return value != nullptr && std::string_view(value) == "1";
}

void skip_without_gpu(const std::function<void()>& look) {
  try {
    look();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kNoDevice || is_gpu_required()) throw;
    std::printf("skipped: %s\n", error.what());
    std::fflush(stdout);
    std::_Exit(kSkipped);
  }
}

void exit_as_skipped_after_skips() {
  const ::testing::UnitTest& all = *::testing::UnitTest::GetInstance();
  if (all.skipped_test_count() == 0 || !all.Passed()) return;
  std::atexit([] {
    std::fflush(nullptr);
    std::_Exit(kSkipped);
  });
}

}  // namespace mtf::testing
