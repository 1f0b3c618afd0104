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
  fs::create_symlink(other, partial_path(path));
  const std::string text = "new";
  EXPECT_NE(write_file(path, std::as_bytes(std::span(text))), 0);
  EXPECT_EQ(contents_of(other), "precious");
}

TEST_F(FileTest, AFileIsWrittenInPartsUnderANameOfItsProcess) {
  const std::string path = directory() + "/config.yaml", of_another = path + ".partial-1";
  write_contents(of_another, "half");
  const std::string first = "one, ", second = "two";
  const std::vector<std::span<const std::byte>> parts = {std::as_bytes(std::span(first)),
                                                         std::as_bytes(std::span(second))};
  EXPECT_EQ(write_file(path, parts), 0);
  EXPECT_EQ(contents_of(path), "one, two");
  EXPECT_EQ(contents_of(of_another), "half") << "another process still writes it";
  EXPECT_FALSE(fs::exists(partial_path(path)));
}

TEST_F(FileTest, ThePathOfAPartialFileTellsThatOfTheCompleteOne) {
  EXPECT_EQ(without_partial(partial_path("a/rows.safetensors")), "a/rows.safetensors");
  for (const char* path : {"", "7", "rows.safetensors", "rows.partial-", "rows.partial-x", "rows.partial-7x"})
    EXPECT_EQ(without_partial(path), path);
}

}  // namespace
}  // namespace mtf
