#include "engine/checkpoint/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/safetensors/safetensors.h"
#include "tests/checkpoint/testing.h"

namespace mtf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Checkpoints : public CheckpointTest {
 protected:
  /// Writes a checkpoint that contains `variable` as a whole.
  void save(int64_t step, const SourceVariable& variable) const {
    write_checkpoint(directory(), small_manifest(step),
                     std::vector<CheckpointFile>{{"weights.safetensors", {whole_tensor(variable)}}});
  }

  std::vector<int64_t> listed_steps() const {
    std::vector<int64_t> steps;
    for (const SavedCheckpoint& saved : list_checkpoints(directory())) steps.push_back(saved.step);
    return steps;
  }

  const SourceVariable kernel_ =
      random_variable("layer_1/kernel", DType::kFloat32, Shape::parse("d_model:4;d_ff:6"), random_);
};

TEST_F(Checkpoints, AnyRectangleIsReadFromWhateverBlocksWereSaved) {
  const std::vector<std::string> shapes = {"", "a:1", "a:17", "a:5;b:7", "a:1;b:6;c:4", "a:3;b:4;c:2;d:5"};
  const std::vector<DType> dtypes = {DType::kFloat32, DType::kBFloat16, DType::kFloat64,
                                     DType::kInt32,   DType::kInt64,    DType::kBool};
  for (int64_t round = 0; round < 40; ++round) {
    std::vector<SourceVariable> variables;
    variables.reserve(shapes.size());
    for (const std::string& shape : shapes)
      variables.push_back(random_variable("variable of [" + shape + "]", dtypes[random_() % dtypes.size()],
                                          Shape::parse(shape), random_));
    std::vector<CheckpointFile> files = {{"a.safetensors", {}}, {"b.safetensors", {}}, {"c.safetensors", {}}};
    std::vector<std::vector<std::byte>> data;
    data.reserve(1000);
    for (const SourceVariable& variable : variables)
      for (const Rectangle& piece : random_tiling(variable.whole(), 1 + random_() % 12, random_)) {
        data.push_back(elements_of(variable, piece));
        files[random_() % files.size()].tensors.push_back(
            {variable.name, variable.dtype, variable.shape, piece.begin, piece.size, data.back()});
      }
    write_checkpoint(directory(), small_manifest(round), files);

    CheckpointReader reader(path_of(round));
    EXPECT_EQ(reader.manifest().variables.size(), variables.size());
    for (const SourceVariable& variable : variables)
      for (int i = 0; i < 10; ++i) {
        const Rectangle wanted = i == 0 ? variable.whole() : random_rectangle(variable.shape, random_);
        ASSERT_EQ(read_elements(reader, variable.name, wanted), elements_of(variable, wanted));
      }
    reader.verify();
  }
}

TEST_F(Checkpoints, TheManifestComesBack) {
  save(100, kernel_);
  CheckpointReader reader(path_of(100));
  EXPECT_EQ(reader.path(), path_of(100));
  const Manifest& manifest = reader.manifest();
  EXPECT_EQ(manifest.step, 100);
  EXPECT_EQ(manifest.seed, 0xfedcba9876543210u);
  EXPECT_EQ(manifest.next_rows, small_manifest(0).next_rows);
  EXPECT_EQ(manifest.metrics, small_manifest(0).metrics);
  ASSERT_NE(reader.find("layer_1/kernel"), nullptr);
  EXPECT_EQ(reader.find("layer_1/kernel")->shape, kernel_.shape);
  EXPECT_EQ(reader.find("layer_1/bias"), nullptr);
}

TEST_F(Checkpoints, FilesAreSafetensorsWithDimensionNames) {
  const SourceVariable bias = random_variable("bias", DType::kBFloat16, Shape::parse("d_ff:6"), random_);
  const Rectangle upper = {{3}, {3}};
  const std::vector<std::byte> upper_data = elements_of(bias, upper),
                               lower_data = elements_of(bias, {{0}, {3}});
  write_checkpoint(
      directory(), small_manifest(1),
      std::vector<CheckpointFile>{{"weights.safetensors",
                                   {whole_tensor(kernel_),
                                    {"bias", bias.dtype, bias.shape, upper.begin, upper.size, upper_data},
                                    {"bias", bias.dtype, bias.shape, {0}, {3}, lower_data}}}});
  const SafetensorsFile file(path_of(1) + "/weights.safetensors");
  EXPECT_EQ(file.tensors().size(), 3u);
  EXPECT_THAT(file.at("layer_1/kernel").dimensions, ElementsAre("d_model", "d_ff"));
  EXPECT_THAT(file.at("layer_1/kernel").shape, ElementsAre(4, 6));
  EXPECT_THAT(file.at("bias@3").dimensions, ElementsAre("d_ff"));
  EXPECT_EQ(std::vector<std::byte>(file.at("bias@3").data.begin(), file.at("bias@3").data.end()), upper_data);
}

TEST_F(Checkpoints, HoldNoVariablesOrNoFiles) {
  write_checkpoint(directory(), small_manifest(1), std::vector<CheckpointFile>{{"empty.safetensors", {}}});
  write_checkpoint(directory(), small_manifest(2), {});
  CheckpointReader(path_of(1)).verify();
  CheckpointReader(path_of(2)).verify();
}

TEST_F(Checkpoints, AreListedByStepAndNothingElseIs) {
  EXPECT_THAT(list_checkpoints(directory()), IsEmpty());
  for (const int64_t step : {900, 20, 123456789}) save(step, kernel_);
  for (const char* name : {"step-1", "step-0000000x", "step-", "step--0000001", "best", "step-00000020.old"})
    std::filesystem::create_directories(directory() + "/" + name);
  EXPECT_THAT(listed_steps(), ElementsAre(20, 900, 123456789));
  EXPECT_EQ(list_checkpoints(directory())[0].path, path_of(20));
}

TEST_F(Checkpoints, OfTheSameStepIsReplaced) {
  save(5, random_variable("old", DType::kInt64, Shape::parse("a:9"), random_));
  save(5, kernel_);
  CheckpointReader reader(path_of(5));
  EXPECT_EQ(reader.find("old"), nullptr);
  EXPECT_EQ(read_elements(reader, kernel_.name, kernel_.whole()), kernel_.elements);
  EXPECT_THAT(names_in(directory()), ElementsAre("step-00000005"));
}

TEST_F(Checkpoints, AreReplacedOnFileSystemsThatCannotExchangeNames) {
  save(5, random_variable("old", DType::kInt64, Shape::parse("a:9"), random_));
  const ScopedFault fault("checkpoint.sync=EINVAL");
  save(5, kernel_);
  EXPECT_NE(CheckpointReader(path_of(5)).find(kernel_.name), nullptr);
  EXPECT_THAT(names_in(directory()), ElementsAre("step-00000005"));
}

TEST_F(Checkpoints, AReaderKeepsWhatItHasOpened) {
  save(5, kernel_);
  CheckpointReader reader(path_of(5));
  save(5, random_variable("new", DType::kInt64, Shape::parse("a:9"), random_));
  remove_checkpoint(list_checkpoints(directory()).front());
  EXPECT_EQ(read_elements(reader, kernel_.name, kernel_.whole()), kernel_.elements);
}

TEST_F(Checkpoints, AreRemovedOneByOne) {
  save(1, kernel_);
  save(2, kernel_);
  remove_checkpoint(list_checkpoints(directory()).front());
  EXPECT_THAT(names_in(directory()), ElementsAre("step-00000002"));
  EXPECT_THAT(message_of(
                  [&] {
                    remove_checkpoint({1, path_of(1)});
                  },
                  ErrorKind::kSystem),
              HasSubstr("cannot rename " + path_of(1) + ": No such file or directory"));
}

TEST_F(Checkpoints, RemovingTheUnfinishedSparesAllElse) {
  remove_unfinished(directory());  // the directory does not exist
  save(1, kernel_);
  save(2, kernel_);
  std::filesystem::create_directories(directory() + "/.step-00000003.tmp/folder");
  std::ofstream(directory() + "/.step-00000003.tmp/weights.safetensors") << "abc";
  std::filesystem::create_directories(directory() + "/.step-3.tmp");
  std::filesystem::create_directories(directory() + "/.step-00000002.old");  // was replaced by step 2
  std::filesystem::rename(path_of(1), directory() + "/.step-00000001.old");  // was not replaced
  remove_unfinished(directory());
  EXPECT_THAT(names_in(directory()), ElementsAre(".step-3.tmp", "step-00000001", "step-00000002"));
  CheckpointReader(path_of(1)).verify();
}

TEST_F(Checkpoints, UnderAnotherStepAreNotBelieved) {
  save(5, kernel_);
  std::filesystem::rename(path_of(5), path_of(6));
  EXPECT_THAT(message_of([&] { CheckpointReader reader(path_of(6)); }), HasSubstr("manifest of step 5"));
  std::filesystem::rename(path_of(6), directory() + "/mine");
  CheckpointReader(directory() + "/mine").verify();
}

TEST_F(Checkpoints, MissingFilesAreNamed) {
  EXPECT_THAT(message_of([&] { CheckpointReader reader(path_of(5)); }),
              HasSubstr(path_of(5) + "/manifest.json: it is missing; the checkpoint is damaged"));
  save(5, kernel_);
  std::filesystem::remove(path_of(5) + "/weights.safetensors");
  EXPECT_THAT(message_of([&] { CheckpointReader reader(path_of(5)); }),
              HasSubstr(path_of(5) + "/weights.safetensors: it is missing; the checkpoint is damaged"));
}

}  // namespace
}  // namespace mtf
