// Tests checkpoints that several processes write, each some of the files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/checkpoint/checkpoint_writer.h"
#include "tests/checkpoint/testing.h"

namespace mtf {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CheckpointOfSeveral : public CheckpointTest {
 protected:
  /// Writes rows [begin, begin + 2) of the kernel, and returns the part after a round trip through text.
  WrittenPart write_rows(int64_t begin) {
    const Rectangle rows{{begin, 0}, {2, 6}};
    const std::vector<std::byte> data = elements_of(kernel_, rows);
    CheckpointWriter writer(directory(), 1);
    WrittenPart part = writer.write(std::vector<CheckpointFile>{
        {"rows-" + std::to_string(begin) + ".safetensors",
         {{kernel_.name, kernel_.dtype, kernel_.shape, rows.begin, rows.size, data}}}});
    part.writer = "the writer of row " + std::to_string(begin);
    return parse_part(to_json(part));
  }

  /// Returns the message of the error of the first process's finish().
  std::string finish_error(CheckpointWriter& first, const std::vector<WrittenPart>& parts) const {
    return message_of([&] { first.finish(small_manifest(1), parts); }, ErrorKind::kSystem);
  }

  const SourceVariable kernel_ =
      random_variable("kernel", DType::kFloat32, Shape::parse("d_model:4;d_ff:6"), random_);
};

TEST_F(CheckpointOfSeveral, HoldsTheBlocksOfAll) {
  CheckpointWriter first(directory(), 1);
  first.begin();
  const std::vector<WrittenPart> parts = {write_rows(2), write_rows(0)};
  EXPECT_THAT(list_checkpoints(directory()), IsEmpty());
  first.finish(small_manifest(1), parts);
  CheckpointReader reader(path_of(1));
  reader.verify();
  EXPECT_EQ(read_elements(reader, kernel_.name, kernel_.whole()), kernel_.elements);
  EXPECT_THAT(names_in(path_of(1)), ElementsAre("manifest.json", "rows-0.safetensors", "rows-2.safetensors"));
  EXPECT_THAT(names_in(directory()), ElementsAre("step-00000001"));
}

TEST_F(CheckpointOfSeveral, ARunsDirectoryThatIsGoneDoesNotComeBack) {
  CheckpointWriter first(directory() + "/run/checkpoints", 1);
  EXPECT_THAT(message_of([&] { first.begin(); }, ErrorKind::kSystem), HasSubstr("No such file or directory"));
  EXPECT_FALSE(std::filesystem::exists(directory()));
}

TEST_F(CheckpointOfSeveral, IsGoneWhereItIsNotFinished) {
  {
    CheckpointWriter first(directory(), 1);
    first.begin();
    write_rows(2);
  }
  EXPECT_THAT(names_in(directory()), IsEmpty());
}

TEST_F(CheckpointOfSeveral, NeedsFilesInTheDirectoryOfTheFirst) {
  CheckpointWriter first(directory(), 1);
  first.begin();
  const std::vector<WrittenPart> parts = {write_rows(0), write_rows(2)};
  std::filesystem::remove(directory() + "/.step-00000001.tmp/rows-2.safetensors");
  EXPECT_THAT(finish_error(first, parts),
              AllOf(HasSubstr("cannot write " + path_of(1)),
                    HasSubstr("the file rows-2.safetensors of the writer of row 2 is not there")));
}

TEST_F(CheckpointOfSeveral, IsBegunByTheFirstAlone) {
  EXPECT_THAT(message_of([&] { write_rows(0); }, ErrorKind::kSystem),
              HasSubstr("cannot write " + path_of(1) + ": No such file or directory"));
  {
    CheckpointWriter first(directory(), 1);
    first.begin();
    write_rows(0);  // its writer did not begin the checkpoint, so it leaves the directory alone
    EXPECT_THAT(names_in(directory()), ElementsAre(".step-00000001.tmp"));
  }
  EXPECT_THAT(names_in(directory()), IsEmpty());
}

}  // namespace
}  // namespace mtf
