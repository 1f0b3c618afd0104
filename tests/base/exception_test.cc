// Tests the messages that as_error() makes of libraries' exceptions.
#include "engine/base/exception.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <new>
#include <stdexcept>
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

}  // namespace
}  // namespace mtf
