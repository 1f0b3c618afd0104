// Tests the output of lines to files, which are published atomically, and to pipes, whose readers may be
// slow.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "engine/base/file.h"
#include "engine/base/process.h"
#include "tests/support/failure.h"
#include "trainer/decode/output.h"

namespace mtf {
namespace {

using ::testing::HasSubstr;

class TextOutputTest : public ::testing::Test {
 protected:
  TextOutputTest() {
    std::string name = ::testing::TempDir() + "text_output_XXXXXX";
    directory_ = ::mkdtemp(name.data());
  }
  ~TextOutputTest() override { std::filesystem::remove_all(directory_); }

  std::string path(const std::string& name) const { return directory_ + "/" + name; }
  std::string pipe() const {
    EXPECT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
    return path("pipe");
  }
  static std::string text_of(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }

 private:
  std::string directory_;
};

TEST_F(TextOutputTest, AFileIsThereWhenItIsWhole) {
  TextOutput output(path("out.{step}.txt"), 12);
  output.line("one");
  output.flush();
  output.line("two");
  EXPECT_FALSE(std::filesystem::exists(path("out.12.txt")));
  output.close();
  EXPECT_EQ(text_of(path("out.12.txt")), "one\ntwo\n");
}

TEST_F(TextOutputTest, AFileThatIsNotClosedGoesAndLeavesTheOldOne) {
  std::ofstream(path("out")) << "old";
  {
    TextOutput output(path("out"), 0);
    output.line("new");
    output.flush();
  }
  EXPECT_EQ(text_of(path("out")), "old");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(path("")), {}), 1);
}

TEST_F(TextOutputTest, WhatTheSystemDoesNotWriteIsAnError) {
  TextOutput output("/dev/full", 0);
  output.line("one");
  EXPECT_THAT(failure([&] { output.flush(); }, ErrorKind::kSystem),
              HasSubstr("cannot write /dev/full: No space left on device"));
}

TEST_F(TextOutputTest, APipeThatLosesItsReaderEndsTheProgramSilently) {
  const auto write = [name = pipe()] {
    prepare_process();
    auto reader = std::make_unique<File>(name, O_RDONLY | O_NONBLOCK);
    TextOutput output(name, 0);
    reader.reset();
    output.line("one");
    output.flush();
  };
  EXPECT_EXIT(write(), ::testing::KilledBySignal(SIGPIPE), "^$");
}

TEST_F(TextOutputTest, SaysThatItWaitsForAPipeToBeOpened) {
  const std::string name = pipe();
  std::unique_ptr<File> reader;
  int notices = 0;
  TextOutput output(name, 0, [&] {
    if (++notices == 2) reader = std::make_unique<File>(name, O_RDONLY | O_NONBLOCK);
  });
  EXPECT_EQ(notices, 2);
}

TEST_F(TextOutputTest, SaysThatItWaitsForAReaderWhoTakesHisTime) {
  const std::string name = pipe();
  const File both(name, O_RDWR);
  ASSERT_GT(::fcntl(both.get(), F_SETPIPE_SZ, 4096), 0);
  std::string read;
  const size_t size = 20000;
  std::thread reader;
  int notices = 0;
  TextOutput output(name, 0, [&] {
    if (++notices != 2) return;
    reader = std::thread([&] {
      std::string piece(3000, '\0');
      while (read.size() < size + 1)
        read += piece.substr(0, static_cast<size_t>(::read(both.get(), piece.data(), piece.size())));
    });
  });
  output.line(std::string(size, 'x'));
  output.flush();
  ASSERT_TRUE(reader.joinable());
  reader.join();
  EXPECT_GE(notices, 2);
  EXPECT_EQ(read, std::string(size, 'x') + "\n");
}

TEST_F(TextOutputTest, WhoWaitsMayGiveUp) {
  const std::string name = pipe();
  const File both(name, O_RDWR);
  TextOutput output(name, 0, [] { throw Error(ErrorKind::kPeerLost, "rank 1 was lost"); });
  EXPECT_EQ(failure([&] { output.line(std::string(1 << 20, 'x')); }, ErrorKind::kPeerLost),
            "rank 1 was lost");
}

}  // namespace
}  // namespace mtf
