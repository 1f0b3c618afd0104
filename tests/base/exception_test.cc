// Tests the messages that as_error() makes of libraries' exceptions.
#include "engine/base/exception.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>

namespace mtf {
namespace {

TEST(AsError, LeavesErrorsAsTheyAre) {
  const Error error(ErrorKind::kConfig, "wrong", "right");
  EXPECT_STREQ(as_error(error, "program").what(), "wrong; right");
  EXPECT_EQ(as_error(error, "program").exit_code(), 2);
}

TEST(AsError, SaysWhatHappened) {
  const auto text = [](const std::exception& error) {
    return std::string(as_error(error, "program").what());
  };
  EXPECT_EQ(text(std::bad_alloc()),
            "program: there is not enough memory; less at a time, or a machine or a control group with more");
  EXPECT_EQ(text(std::length_error("vector::_M_default_append")), text(std::bad_alloc()));
  EXPECT_EQ(text(std::filesystem::filesystem_error("cannot get status", "a/b",
                                                   std::make_error_code(std::errc::permission_denied))),
            "a/b: Permission denied");
  EXPECT_EQ(text(std::system_error(EAGAIN, std::generic_category(), "raw")),
            "program: the system refuses another thread: Resource temporarily unavailable; fewer threads "
            "(`run.threads`), or a higher limit (`ulimit -u`)");
  EXPECT_EQ(text(std::runtime_error("[json.exception.type_error.302] type must be string")),
            "program: a mistake in the program: type must be string; please report it with the command");
  EXPECT_EQ(as_error(std::bad_alloc(), "program").exit_code(), 1);
}

/// Prints `bytes` to a full disk, as a program does that ends well; returns the exit code.
int print_in_vain(size_t bytes) {
  if (std::freopen("/dev/full", "w", stdout) == nullptr) return 99;
  try {
    fmt::print("{}", std::string(bytes, 'x'));
    check_standard_output();
    return 0;
  } catch (const std::exception& error) {
    return report_failure(error, "program");
  }
}

TEST(StandardOutputDeathTest, IsAFailureWhereItIsLost) {
  for (const size_t bytes : {1, 100'000})  // the second does not fit into the buffer
    EXPECT_EXIT(std::_Exit(print_in_vain(bytes)), ::testing::ExitedWithCode(1),
                "^cannot write standard output: No space left on device\n$");
  EXPECT_NO_THROW(check_standard_output());
}

}  // namespace
}  // namespace mtf
