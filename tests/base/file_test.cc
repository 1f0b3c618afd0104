#include "engine/base/file.h"

#include <gmock/gmock.h>

#include "tests/checkpoint/testing.h"

namespace mtf {
namespace {

namespace fs = std::filesystem;

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::StartsWith;

class FileTest : public CheckpointTest {
 protected:
  FileTest() { fs::create_directories(directory()); }
};

TEST_F(FileTest, AHeldDirectoryTellsWhatHasBecomeOfIt) {
  const HeldDirectory held(directory());
  EXPECT_EQ(held.change(), "");
  fs::rename(directory(), directory() + ".moved");
  EXPECT_THAT(held.change(), AllOf(StartsWith("was renamed to /"), EndsWith("/checkpoints.moved")));
  fs::create_directory(directory());
  EXPECT_THAT(held.change(), EndsWith("/checkpoints.moved")) << "another one has its name";
  fs::remove(directory());
  fs::rename(directory() + ".moved", directory());
  EXPECT_EQ(held.change(), "");
  fs::remove(directory());
  EXPECT_EQ(held.change(), "was removed");
  fs::create_directory(directory());
  EXPECT_EQ(held.change(), "was removed");
}

TEST_F(FileTest, ALinkToTheNewPlaceOfAHeldDirectoryIsNoChange) {
  const HeldDirectory held(directory());
  fs::rename(directory(), directory() + ".moved");
  fs::create_directory_symlink(directory() + ".moved", directory());
  EXPECT_EQ(held.change(), "");
}

TEST_F(FileTest, NothingIsKnownOfADirectoryThatCouldNotBeHeld) {
  EXPECT_EQ(HeldDirectory(directory() + "/none").change(), "");
}

TEST_F(FileTest, AFileIsNotWrittenThroughALinkUnderItsTemporaryName) {
  const std::string path = directory() + "/config.yaml", other = directory() + "/other";
  write_contents(other, "precious");
  fs::create_symlink(other, path + ".tmp");
  const std::string text = "new";
  EXPECT_NE(write_file(path, std::as_bytes(std::span(text))), 0);
  EXPECT_EQ(contents_of(other), "precious");
}

}  // namespace
}  // namespace mtf
