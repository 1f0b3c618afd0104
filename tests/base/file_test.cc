#include "engine/base/file.h"

#include <gmock/gmock.h>
#include <linux/capability.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>

#include "engine/base/file_lock.h"
#include "tests/checkpoint/testing.h"
#include "tests/support/failure.h"

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

TEST_F(FileTest, TheUmaskAloneSaysWhoMayReadAndWriteAFile) {
  const mode_t before = ::umask(0);
  EXPECT_EQ(write_file(directory() + "/file", std::as_bytes(std::span("text"))), 0);
  ::umask(before);
  EXPECT_EQ(fs::status(directory() + "/file").permissions(), fs::perms(0666));
}

/// Takes from this thread what lets root read and write any file.
void drop_capabilities() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  const std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> none{};
  if (::syscall(SYS_capset, &header, none.data()) != 0) std::abort();
}

TEST_F(FileTest, ALockThatAnotherUserHasLeftIsTakenIfItIsReadable) {
  const std::string path = directory() + "/store.lock";
  const auto take = [&](mode_t mode) {
    write_contents(path, "");
    fs::permissions(path, fs::perms(mode));
    drop_capabilities();
    const std::string text = failure([&] { const FileLock lock(path, {}); });
    std::fprintf(stderr, "%s", text.c_str());
    std::exit(0);
  };
  EXPECT_EXIT(take(0444), ::testing::ExitedWithCode(0), "no error");
  EXPECT_EXIT(take(0200), ::testing::ExitedWithCode(0), "store.lock: cannot be written: Permission denied");
}

TEST_F(FileTest, PartialFilesAreThoseOfOnePathOfAnyProcess) {
  const std::string path = directory() + "/store";
  for (const char* name :
       {"store", "store.partial-1", "store.partial-22", "store.partial-x", "other.partial-1"})
    write_contents(directory() + "/" + name, "half");
  EXPECT_THAT(partial_files(path),
              ::testing::UnorderedElementsAre(path + ".partial-1", path + ".partial-22"));
  EXPECT_TRUE(partial_files(directory() + "/none/store").empty());
}

TEST_F(FileTest, AMappedFileThatBecomesShorterEndsTheProcessWithItsName) {
  const std::string path = directory() + "/data.npy", other = directory() + "/other.npy";
  write_contents(path, std::string(1 << 16, 'a'));
  write_contents(other, std::string(1 << 16, 'b'));
  const MappedFile before(other);
  const auto read_the_end = [&] {
    const MappedFile file(path);
    const MappedFile forgotten(other);
    fs::resize_file(path, 1);
    std::exit(file.bytes().back() == std::byte{'a'} ? 0 : 2);
  };
  EXPECT_EXIT(read_the_end(), ::testing::ExitedWithCode(1), "data.npy: it has become shorter");
}

}  // namespace
}  // namespace mtf
