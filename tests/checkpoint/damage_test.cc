#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/checkpoint/testing.h"

namespace mtf {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// A checkpoint of two files; the tests damage copies of them.
class DamageTest : public CheckpointTest {
 protected:
  DamageTest() {
    const std::vector<std::byte> left = elements_of(kernel_, {{0, 0}, {4, 2}}),
                                 right = elements_of(kernel_, {{0, 2}, {4, 4}});
    write_checkpoint(
        directory(), small_manifest(7),
        std::vector<CheckpointFile>{{"weights.safetensors",
                                     {{"kernel", kernel_.dtype, kernel_.shape, {0, 0}, {4, 2}, left},
                                      {"kernel", kernel_.dtype, kernel_.shape, {0, 2}, {4, 4}, right},
                                      whole_tensor(bias_)}},
                                    {"optimizer.safetensors", {whole_tensor(moment_)}}});
    for (const std::string& name : names_in(path_of(7))) intact_[name] = contents_of(path_of(7) + "/" + name);
  }

  /// Returns the message of the error in opening or verifying the checkpoint if a file has these contents.
  std::string failure(const std::string& name, const std::string& contents) const {
    const std::string file = path_of(7) + "/" + name;
    write_contents(file, contents);
    const std::string message = message_of([&] {
      CheckpointReader reader(path_of(7));
      reader.verify();
    });
    write_contents(file, intact_.at(name));
    return message;
  }

  /// Returns the variable to which a byte of a file belongs; empty for headers and the manifest.
  std::string variable_at(const std::string& name, size_t position) const {
    for (const CheckpointVariable& variable : read_manifest(path_of(7)).variables)
      for (const CheckpointBlock& block : variable.blocks)
        if (block.file == name && static_cast<int64_t>(position) >= block.offset &&
            static_cast<int64_t>(position) < block.offset + block.bytes)
          return variable.name;
    return {};
  }

  const SourceVariable kernel_ = random_variable("kernel", DType::kFloat32, Shape::parse("a:4;b:6"), random_);
  const SourceVariable bias_ = random_variable("bias", DType::kBFloat16, Shape::parse("b:6"), random_);
  const SourceVariable moment_ = random_variable("kernel/m", DType::kFloat32, Shape::parse("a:3"), random_);
  std::map<std::string, std::string> intact_;
};

TEST_F(DamageTest, EveryFlippedBitIsNoticed) {
  EXPECT_EQ(failure("manifest.json", intact_.at("manifest.json")), "");
  for (const auto& [name, intact] : intact_)
    for (size_t position = 0; position < intact.size(); ++position) {
      const std::string variable = variable_at(name, position);
      std::string damaged = intact;
      damaged[position] = static_cast<char>(damaged[position] ^ (1 << position % 8));
      const std::string message = failure(name, damaged);
      ASSERT_NE(message, "") << name << " at " << position;
      EXPECT_THAT(message, HasSubstr(path_of(7) + "/" + name));
      if (variable.empty()) continue;
      EXPECT_EQ(message,
                path_of(7) + "/" + name + ": variable `" + variable +
                    "`: its data do not have the checksum of the manifest; the checkpoint is damaged: remove "
                    "its directory to continue from an older one");
    }
}

TEST_F(DamageTest, AMissingFileIsNoticed) {
  for (const auto& [name, intact] : intact_) {
    std::filesystem::remove(path_of(7) + "/" + name);
    EXPECT_EQ(
        message_of([&] { CheckpointReader reader(path_of(7)); }),
        path_of(7) + "/" + name +
            ": it is missing; the checkpoint is damaged: remove its directory to continue from an older "
            "one");
    write_contents(path_of(7) + "/" + name, intact);
  }
}

TEST_F(DamageTest, IsNoCheckpointOnceItIsSetAside) {
  const std::string aside = directory() + "/damaged-step-00000007";
  for (int time = 0; time < 2; ++time) {  // the second time, an earlier one exists
    EXPECT_EQ(set_checkpoint_aside({7, path_of(7)}), aside);
    EXPECT_TRUE(list_checkpoints(directory()).empty());
    remove_unfinished(directory());
    EXPECT_EQ(contents_of(aside + "/manifest.json"), intact_.at("manifest.json"));
    std::filesystem::copy(aside, path_of(7));
  }
}

TEST_F(DamageTest, EveryTruncationIsNoticed) {
  for (const auto& [name, intact] : intact_)
    for (size_t length = 0; length < intact.size(); ++length)
      ASSERT_NE(failure(name, intact.substr(0, length)), "") << name << " of " << length << " bytes";
  EXPECT_THAT(failure("weights.safetensors", intact_.at("weights.safetensors").substr(0, 100)),
              AllOf(HasSubstr("/weights.safetensors: it has 100 bytes, the manifest says "),
                    HasSubstr("; the checkpoint is damaged")));
}

TEST_F(DamageTest, BytesAtTheEndAreNoticed) {
  for (const auto& [name, intact] : intact_) EXPECT_NE(failure(name, intact + "x"), "") << name;
}

/// A crash may leave a file that was not synced with its full length, but with zeros in its last pages.
TEST_F(DamageTest, EveryTornTailIsNoticed) {
  for (const auto& [name, intact] : intact_)
    for (size_t kept = 0; kept < intact.size(); ++kept) {
      std::string torn = intact;
      std::fill(torn.begin() + static_cast<std::ptrdiff_t>(kept), torn.end(), '\0');
      if (torn != intact) {
        ASSERT_NE(failure(name, torn), "") << name << " with zeros from byte " << kept;
      }
    }
}

TEST_F(DamageTest, FilesThatChangedPlacesAreNoticed) {
  EXPECT_NE(failure("weights.safetensors", intact_.at("optimizer.safetensors")), "");
  EXPECT_NE(failure("manifest.json", intact_.at("optimizer.safetensors")), "");
}

TEST_F(DamageTest, IntactVariablesCanStillBeRead) {
  const int64_t offset = [&] {
    for (const CheckpointVariable& variable : read_manifest(path_of(7)).variables)
      if (variable.name == "kernel") return variable.blocks.back().offset;
    return int64_t{-1};
  }();
  ASSERT_GE(offset, 0);
  std::string damaged = intact_.at("weights.safetensors");
  damaged[static_cast<size_t>(offset)] ^= 1;
  write_contents(path_of(7) + "/weights.safetensors", damaged);
  CheckpointReader reader(path_of(7));
  EXPECT_EQ(read_elements(reader, "bias", bias_.whole()), bias_.elements);
  EXPECT_EQ(read_elements(reader, "kernel", {{1, 0}, {2, 2}}), elements_of(kernel_, {{1, 0}, {2, 2}}));
  for (int time = 0; time < 2; ++time)  // the second time, the block has been requested before
    EXPECT_THAT(message_of([&] {
                  read_elements(reader, "kernel", {{3, 5}, {1, 1}});
                }),
                HasSubstr("variable `kernel`"));
}

}  // namespace
}  // namespace mtf
