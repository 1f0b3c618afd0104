// Tests the lines that infer and score read: from files, which are looked through first, from pipes and from a terminal.
#include "trainer/decode/line_stream.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "engine/base/file.h"
#include "tests/support/failure.h"
#include "trainer/decode/paired_lines.h"

namespace mtf {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class LineStreamTest : public ::testing::Test {
 protected:
  LineStreamTest() {
    std::string name = ::testing::TempDir() + "line_stream_XXXXXX";
    directory_ = ::mkdtemp(name.data());
  }
  ~LineStreamTest() override { std::filesystem::remove_all(directory_); }

  std::string path(const std::string& name) const { return directory_ + "/" + name; }
  std::string file(const std::string& name, const std::string& bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
    return path(name);
  }

 private:
  std::string directory_;
};

/// Standard input is `descriptor` while this lives.
class StandardInput {
 public:
  explicit StandardInput(int descriptor) : before_(::dup(STDIN_FILENO)) { ::dup2(descriptor, STDIN_FILENO); }
  ~StandardInput() {
    ::dup2(before_, STDIN_FILENO);
    ::close(before_);
  }
  StandardInput(const StandardInput&) = delete;

 private:
  int before_;
};

/// Adds all lines to `taken`. Throws Error as LineStream does.
void take_all(LineStream& lines, std::vector<std::string>& taken) {
  for (std::vector<std::string> some = lines.take(9); !some.empty(); some = lines.take(9))
    taken.insert(taken.end(), some.begin(), some.end());
}

TEST_F(LineStreamTest, AFileLosesItsByteOrderMark) {
  std::vector<std::string> taken;
  LineStream lines(file("marked", "\xef\xbb\xbfone\r\n\xef\xbb\xbftwo\n"), {});
  take_all(lines, taken);
  EXPECT_THAT(taken, ElementsAre("one", "\xef\xbb\xbftwo"));
}

TEST_F(LineStreamTest, FilesThatAreNoUtf8AreRefusedWithAllTheirLines) {
  check_lines(file("good", "Grüße\n\n\x01\x02\nthe\tcat"), {});
  EXPECT_EQ(failure([&] { check_lines(file("bad", "ok\nM\xfcller\nok\n\xe9\n"), {}); }, ErrorKind::kData),
            path("bad") +
                ": line 2: no UTF-8: byte \\xfc after 1 character; the same in line 4; convert it to "
                "UTF-8, for example with `iconv -f ISO-8859-1 -t UTF-8`");
  EXPECT_THAT(failure([&] { check_lines(file("wide", std::string("\xff\xfeh\0i\0", 6)), {}); }),
              HasSubstr("wide: it is UTF-16"));
  EXPECT_THAT(failure([&] { check_lines(file("long", "12345\n123456\n"), {.bytes = 5}); }),
              HasSubstr("long: line 2: longer than 5 bytes"));
}

TEST_F(LineStreamTest, BothOfTwoFilesAreLookedThrough) {
  const std::string good = file("good", "one\ntwo\n"), bad = file("bad", "one\n\xe9\n");
  check_lines({.first = good, .second = good, .hint = ""});
  EXPECT_THAT(failure([&] { check_lines({.first = bad, .second = good, .hint = ""}); }),
              HasSubstr("bad: line 2: no UTF-8"));
  EXPECT_THAT(failure([&] { check_lines({.first = good, .second = bad, .hint = ""}); }),
              HasSubstr("bad: line 2: no UTF-8"));
}

TEST_F(LineStreamTest, NumbersOfLinesAreComparedBeforeAnyIsUsed) {
  const std::string two = file("two", "one\ntwo\n"), three = file("three", "one\n\nthree");
  const std::string hint = "files of as many lines";
  EXPECT_EQ(failure([&] { check_lines({.first = two, .second = three, .hint = hint}); }, ErrorKind::kData),
            three + " has more lines than " + two + "; " + hint);
  EXPECT_EQ(failure([&] { check_lines({.first = three, .second = two, .hint = hint}); }, ErrorKind::kData),
            two + " has fewer lines than " + three + "; " + hint);
}

TEST_F(LineStreamTest, APipeEndsAtALineThatIsNoUtf8AfterTheLinesBeforeIt) {
  const std::string name = path("pipe");
  ASSERT_EQ(::mkfifo(name.c_str(), 0600), 0);
  check_lines(name, {});  // does not wait for a writer
  std::thread writer([&] { std::ofstream(name) << "one\ntwo\nM\xfcller\nfour\n"; });
  LineStream lines(name, {});
  std::vector<std::string> taken;
  EXPECT_THAT(failure([&] { take_all(lines, taken); }, ErrorKind::kData),
              HasSubstr(name + ": line 3: no UTF-8: byte \\xfc after 1 character; convert it to UTF-8"));
  EXPECT_THAT(taken, ElementsAre("one", "two"));
  writer.join();
}

TEST_F(LineStreamTest, ATerminalIsAskedAgain) {
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY);
  ASSERT_TRUE(::grantpt(terminal) == 0 && ::unlockpt(terminal) == 0);
  const File keyboard(::ptsname(terminal), O_RDWR | O_NOCTTY);
  const std::string typed = "one\n\xfc\ntwo\n\x04";  // the last character ends the input
  ASSERT_EQ(::write(terminal, typed.data(), typed.size()), std::ssize(typed));
  ::testing::internal::CaptureStderr();
  std::vector<std::string> taken;
  {
    const StandardInput input(keyboard.get());
    LineStream lines("-", {});
    take_all(lines, taken);
  }
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("standard input: line 2: no UTF-8: byte \\xfc after 0 characters; convert"),
                    HasSubstr("\n> ")));
  EXPECT_THAT(taken, ElementsAre("one", "two"));
  ::close(terminal);
}

}  // namespace
}  // namespace mtf
