// Tests the messages that as_error() makes of libraries' exceptions, and output that is lost.
#include "engine/base/exception.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>

#include "engine/base/print_message.h"
#include "engine/base/process.h"

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
            "(`run.threads`), or higher limits (`ulimit -u`, `ulimit -v`)");
  EXPECT_EQ(text(std::runtime_error("[json.exception.type_error.302] type must be string")),
            "program: a mistake in the program: type must be string; please report it with the command");
  EXPECT_EQ(as_error(std::bad_alloc(), "program").exit_code(), 1);
}

/// Prints `bytes` as a program does that ends well; returns the exit code.
int print_result(size_t bytes) {
  try {
    fmt::print("{}", std::string(bytes, 'x'));
    check_standard_output();
    return 0;
  } catch (const std::exception& error) {
    return report_failure(error, "program");
  }
}

/// Makes `stream` a pipe that nobody reads.
void lose_reader(int stream) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0 || ::dup2(ends[1], stream) < 0) std::_Exit(99);
  ::close(ends[0]);
}

TEST(StandardOutputDeathTest, IsAFailureWhereItIsLost) {
  const auto print_to_full_disk = [](size_t bytes) {
    std::_Exit(std::freopen("/dev/full", "w", stdout) == nullptr ? 99 : print_result(bytes));
  };
  const auto print_to_closed_stream = [](size_t bytes) {
    ::close(STDOUT_FILENO);
    prepare_process();
    std::_Exit(print_result(bytes));
  };
  for (const size_t bytes : {1, 100'000}) {  // the second does not fit into the buffer
    EXPECT_EXIT(print_to_full_disk(bytes), ::testing::ExitedWithCode(1),
                "^cannot write standard output: No space left on device\n$");
    EXPECT_EXIT(print_to_closed_stream(bytes), ::testing::ExitedWithCode(1),
                "^cannot write standard output: Bad file descriptor\n$");
  }
  EXPECT_NO_THROW(check_standard_output());
}

TEST(StandardOutputDeathTest, EndsTheProgramSilentlyWhereNobodyReadsIt) {
  const auto print = [](size_t bytes) {
    prepare_process();
    lose_reader(STDOUT_FILENO);
    std::_Exit(print_result(bytes));
  };
  for (const size_t bytes : {1, 100'000}) EXPECT_EXIT(print(bytes), ::testing::KilledBySignal(SIGPIPE), "^$");
}

TEST(StandardErrorDeathTest, IsNotNeeded) {
  const auto print = [] {
    prepare_process();
    lose_reader(STDERR_FILENO);
    print_message("{} done\n", 1);
    std::_Exit(0);
  };
  EXPECT_EXIT(print(), ::testing::ExitedWithCode(0), "");
}

TEST(PrepareProcessDeathTest, LeavesStartedProgramsTheDefaultActionOfBrokenPipes) {
  const auto start = [] {
    prepare_process();
    std::_Exit(WTERMSIG(std::system("kill -s PIPE $$")));
  };
  EXPECT_EXIT(start(), ::testing::ExitedWithCode(SIGPIPE), "");
}

}  // namespace
}  // namespace mtf
