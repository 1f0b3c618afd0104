#include "engine/safetensors/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "engine/base/error.h"
#include "tests/checkpoint/testing.h"

namespace mtf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Safetensors : public ::testing::Test {
 protected:
  Safetensors() { std::filesystem::create_directories(directory_); }
  ~Safetensors() override { std::filesystem::remove_all(directory_); }

  std::string path(const std::string& name = "test.safetensors") const {
    return (directory_ / name).string();
  }

  /// Writes a file with this header and data; returns its path.
  std::string raw_file(const std::string& header, const std::string& data) const {
    const uint64_t length = header.size();
    std::ofstream file(path(), std::ios::binary);
    file.write(reinterpret_cast<const char*>(&length), 8);
    file << header << data;
    return path();
  }
  /// The same with `data_bytes` bytes of data.
  std::string raw_file(const std::string& header, size_t data_bytes) const {
    return raw_file(header, std::string(data_bytes, '\1'));
  }

  /// Returns the message of the error in reading the file.
  std::string failure(const std::string& file) const {
    try {
      SafetensorsFile reader(file);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kCheckpoint);
      EXPECT_THAT(error.what(), HasSubstr(file));
      return error.what();
    }
    ADD_FAILURE() << "no error";
    return {};
  }

  std::filesystem::path directory_ = std::filesystem::path(::testing::TempDir()) /
                                     ::testing::UnitTest::GetInstance()->current_test_info()->name();
};

template <class T>
StoredTensor tensor(std::string name, std::vector<int64_t> shape, const std::vector<T>& values) {
  return {.name = std::move(name),
          .dtype = DTypeOf<T>::value,
          .shape = std::move(shape),
          .data = std::as_bytes(std::span(values))};
}

TEST_F(Safetensors, ReadsWhatItWrote) {
  const std::vector<float> kernel = {1, 2, 3, 4, 5, 6};
  const std::vector<BFloat16> bias = {BFloat16(1.5f), BFloat16(-2.0f), BFloat16(0.25f)};
  const std::vector<double> rate = {0.1};
  const std::vector<int32_t> ids = {-1, 2};
  const std::vector<int64_t> step = {int64_t{1} << 40};
  const std::byte flags[] = {std::byte{1}, std::byte{0}, std::byte{1}};
  std::vector<StoredTensor> tensors = {
      {.name = "flags", .dtype = DType::kBool, .shape = {3}, .data = flags},
      tensor("bias", {3}, bias),
      tensor("layer/kernel", {2, 3}, kernel),
      tensor("ids", {2, 1}, ids),
      tensor("step", {}, step),
      tensor("rate", {1}, rate),
  };
  tensors[2].dimensions = {"rows", "hidden"};
  write_safetensors(path(), tensors, {{"format", "mtf"}, {"note", "ü \"quoted\""}});

  const SafetensorsFile file(path());
  EXPECT_EQ(file.tensors().size(), tensors.size());
  EXPECT_EQ(file.metadata().at("note"), "ü \"quoted\"");
  EXPECT_EQ(file.at("layer/kernel").values<float>(), kernel);
  EXPECT_THAT(file.at("layer/kernel").shape, ElementsAre(2, 3));
  EXPECT_THAT(file.at("layer/kernel").dimensions, ElementsAre("rows", "hidden"));
  EXPECT_TRUE(file.at("ids").dimensions.empty());
  EXPECT_EQ(static_cast<float>(file.at("bias").values<BFloat16>()[1]), -2.0f);
  EXPECT_EQ(file.at("rate").values<double>(), rate);
  EXPECT_EQ(file.at("ids").values<int32_t>(), ids);
  EXPECT_EQ(file.at("step").values<int64_t>(), step);
  EXPECT_TRUE(file.at("step").shape.empty());
  EXPECT_EQ(file.at("flags").data[2], std::byte{1});
  for (const StoredTensor& stored : file.tensors())
    EXPECT_EQ(reinterpret_cast<uintptr_t>(stored.data.data()) % size_of(stored.dtype), 0u) << stored.name;
}

TEST_F(Safetensors, OffsetsPointIntoTheFile) {
  const std::vector<int32_t> a = {1, 2}, b = {3};
  write_safetensors(path(), std::vector{tensor("b", {1}, b), tensor("a", {2}, a)});
  const SafetensorsFile file(path());
  std::ifstream stream(path(), std::ios::binary);
  stream.seekg(file.at("b").offset);
  int32_t value = 0;
  stream.read(reinterpret_cast<char*>(&value), 4);
  EXPECT_EQ(value, 3);
  EXPECT_EQ(file.at("a").offset % 64, 0);
}

TEST_F(Safetensors, EqualTensorsGiveEqualBytes) {
  const std::vector<float> a = {1}, b = {2};
  write_safetensors(path("1"), std::vector{tensor("a", {1}, a), tensor("b", {1}, b)});
  write_safetensors(path("2"), std::vector{tensor("b", {1}, b), tensor("a", {1}, a)});
  std::ifstream one(path("1")), two(path("2"));
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(one), {}),
            std::string(std::istreambuf_iterator<char>(two), {}));
}

TEST_F(Safetensors, HoldsEmptyTensorsAndNoTensors) {
  const std::vector<float> nothing;
  write_safetensors(path(), std::vector{tensor("empty", {0, 3}, nothing)});
  EXPECT_TRUE(SafetensorsFile(path()).at("empty").values<float>().empty());
  write_safetensors(path(), {});
  EXPECT_TRUE(SafetensorsFile(path()).tensors().empty());
}

TEST_F(Safetensors, WritingReplacesTheOldFileAndLeavesNothingElse) {
  const std::vector<float> old_values = {1}, new_values = {2};
  write_safetensors(path(), std::vector{tensor("x", {1}, old_values)});
  const SafetensorsFile old_file(path());
  write_safetensors(path(), std::vector{tensor("x", {1}, new_values)});
  EXPECT_EQ(old_file.at("x").values<float>(), old_values);  // its mapping is still valid
  EXPECT_EQ(SafetensorsFile(path()).at("x").values<float>(), new_values);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory_), {}), 1);
}

TEST_F(Safetensors, FailingToWriteSaysWhy) {
  const std::vector<float> values = {1};
  const auto message = [&](const std::string& file) {
    try {
      write_safetensors(file, std::vector{tensor("x", {1}, values)});
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kSystem);
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(message(path("missing/x")), HasSubstr("No such file or directory"));
  std::filesystem::create_directories(path("folder/below"));
  EXPECT_THAT(message(path("folder")), HasSubstr("cannot write " + path("folder")));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory_), {}),
            1);  // no temporary file is left
}

TEST_F(Safetensors, MissingTensorIsNamedWithThoseThatExist) {
  const std::vector<float> values = {1};
  write_safetensors(path(), std::vector{tensor("bias", {1}, values)});
  const SafetensorsFile file(path());
  EXPECT_EQ(file.find("kernel"), nullptr);
  try {
    file.at("kernel");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("no tensor `kernel`"));
    EXPECT_THAT(error.what(), HasSubstr("`bias`"));
  }
}

TEST_F(Safetensors, Float16IsReadAsFloat32) {
  const std::vector<uint16_t> halves = {0x0000, 0x8000, 0x3c00, 0xc248, 0x0001,
                                        0x83ff, 0x0400, 0x7bff, 0xfc00};
  const std::vector<float> values = {0,           -0.0F,    1,     -3.140625F, 0x1p-24F,
                                     -0x3ffp-24F, 0x1p-14F, 65504, -INFINITY};
  std::string data(2 * halves.size() + 4, '\1');
  std::memcpy(data.data(), halves.data(), 2 * halves.size());
  SafetensorsFile read(raw_file(
      R"({"a":{"dtype":"F16","shape":[3,3],"data_offsets":[0,18]},"b":{"dtype":"I32","shape":[],"data_offsets":[18,22]}})",
      data));
  const SafetensorsFile file = std::move(read);
  EXPECT_EQ(file.at("a").shape, (std::vector<int64_t>{3, 3}));
  const std::vector<float> widened = file.at("a").values<float>();
  EXPECT_EQ(widened, values);
  EXPECT_TRUE(std::signbit(widened[1]));
  EXPECT_THAT(file.at("b").values<int32_t>(), ElementsAre(0x01010101));
}

TEST_F(Safetensors, DamagedFilesAreErrors) {
  EXPECT_THAT(failure(path("absent")), HasSubstr("No such file"));
  EXPECT_THAT(failure(directory_.string()), HasSubstr("no regular file"));
  std::ofstream(path()).flush();
  EXPECT_THAT(failure(path()), HasSubstr("empty"));
  std::ofstream(path()) << "abc";
  EXPECT_THAT(failure(path()), HasSubstr("3 bytes"));
  std::ofstream(path()) << "not a safetensors file at all";
  EXPECT_THAT(failure(path()), HasSubstr("header would have"));
  EXPECT_THAT(failure(raw_file("{", 0)), HasSubstr("no valid JSON"));
  EXPECT_THAT(failure(raw_file("[]", 0)), HasSubstr("no JSON object"));
  EXPECT_THAT(failure(raw_file(R"({"__metadata__":{"a":1}})", 0)), HasSubstr("`a` is no string"));
}

TEST_F(Safetensors, DamagedEntriesNameTheTensor) {
  const auto entry = [&](const std::string& text, size_t bytes) {
    return failure(raw_file("{\"w\":" + text + "}", bytes));
  };
  EXPECT_THAT(entry("3", 0), HasSubstr("tensor `w` is no JSON object"));
  EXPECT_THAT(entry(R"({"dtype":"F32","shape":[1]})", 4), HasSubstr("`w` has no `data_offsets`"));
  EXPECT_THAT(entry(R"({"dtype":"F8_E5M2","shape":[2],"data_offsets":[0,2]})", 2),
              HasSubstr("unsupported dtype F8_E5M2"));
  EXPECT_THAT(entry(R"({"dtype":"F16","shape":[1],"data_offsets":[0,4]})", 4), HasSubstr("F16 [1] needs 2"));
  EXPECT_THAT(entry(R"({"dtype":"F32","shape":[-1],"data_offsets":[0,4]})", 4), HasSubstr("`shape`"));
  EXPECT_THAT(entry(R"({"dtype":"F32","shape":[1],"data_offsets":[0]})", 4), HasSubstr("`data_offsets`"));
  EXPECT_THAT(entry(R"({"dtype":"F32","shape":[1],"data_offsets":[4,0]})", 4), HasSubstr("before it begins"));
  EXPECT_THAT(entry(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})", 4), HasSubstr("only 4 bytes"));
  EXPECT_THAT(entry(R"({"dtype":"F32","shape":[2],"data_offsets":[0,4]})", 4), HasSubstr("needs 8"));
  EXPECT_THAT(entry(R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]})", 4),
              HasSubstr("more than 2^63"));
  EXPECT_THAT(entry(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]})", 7),
              HasSubstr("3 bytes at the end"));
  EXPECT_THAT(entry(R"({"dtype":"F32","shape":[1],"data_offsets":[2,6]})", 6), HasSubstr("hole of 2 bytes"));
  EXPECT_THAT(entry(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]},"v":
                       {"dtype":"F32","shape":[1],"data_offsets":[2,6]})",
                    6),
              HasSubstr("`v` overlaps tensor `w`"));
  EXPECT_THAT(entry(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]},"w":
                       {"dtype":"F32","shape":[1],"data_offsets":[0,4]})",
                    4),
              HasSubstr("`w` occurs twice"));
  EXPECT_THAT(
      entry(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]},"__metadata__":{"dimensions/w":"a,b"})", 4),
      HasSubstr("of rank 1 has the dimension names `a,b`"));
}

TEST_F(Safetensors, EveryTruncationAndRandomDamageIsNoticedOrHarmless) {
  const std::vector<float> a = {1, 2, 3}, b = {4};
  write_safetensors(path(), std::vector{tensor("a", {3}, a), tensor("b", {}, b)}, {{"k", "v"}});
  std::ifstream stream(path(), std::ios::binary);
  const std::string intact(std::istreambuf_iterator<char>(stream), {});
  const auto write = [&](const std::string& bytes) {
    write_contents(path("damaged"), bytes);
    return path("damaged");
  };
  for (size_t length = 0; length < intact.size(); ++length) failure(write(intact.substr(0, length)));
  std::mt19937 random(1);
  for (int i = 0; i < 3000; ++i) {
    std::string bytes = intact;
    bytes[random() % bytes.size()] = static_cast<char>(random());
    try {
      const SafetensorsFile file(write(bytes));
      for (const StoredTensor& stored : file.tensors())
        EXPECT_LE(stored.offset + static_cast<int64_t>(stored.data.size()),
                  static_cast<int64_t>(bytes.size()));
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kCheckpoint);
    }
  }
}

}  // namespace
}  // namespace mtf
