// Helpers for tests of sources: a directory for files, and the examples of a source.
#pragma once

#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/source.h"

namespace mtf::testing {

/// A fixture with a directory for each test.
class FilesTest : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(directory_); }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string path(const std::string& name) const { return directory_ + name; }
  std::string file(const std::string& name, std::string_view bytes) const {
    std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
    std::ofstream(path(name), std::ios::binary) << bytes;
    return path(name);
  }
  std::string compressed(const std::string& name, std::string_view bytes) const {
    const gzFile file = gzopen(path(name).c_str(), "wb");
    gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
    gzclose(file);
    return path(name);
  }

  const std::string directory_ = ::testing::TempDir() +
                                 ::testing::UnitTest::GetInstance()->current_test_info()->test_suite_name() +
                                 ::testing::UnitTest::GetInstance()->current_test_info()->name() + "/";
};

/// Returns the values of feature `name` of one example.
template <class T>
std::vector<T> values_of(const Source& source, const std::string& name, int64_t example) {
  const std::vector<Feature>& features = source.features();
  std::vector<std::vector<std::byte>> buffers;
  std::vector<FeatureSlice> slices;
  for (const Feature& feature : features)
    slices.push_back({buffers.emplace_back(static_cast<size_t>(feature.bytes())).data()});
  source.read({&example, 1}, slices);
  const auto feature = std::ranges::find(features, name, &Feature::name);
  if (feature == features.end()) {
    ADD_FAILURE() << "no feature " << name;
    return {};
  }
  EXPECT_EQ(feature->dtype, DTypeOf<T>::value);
  const auto* values = reinterpret_cast<const T*>(buffers[feature - features.begin()].data());
  return {values, values + feature->shape.size()};
}

/// Checks that a part of feature `f` of the first example, read in bytes, has these values of float32.
inline void expect_bytes_of(const Source& source, size_t f, std::vector<FeatureSlice> slices,
                            std::span<const std::byte> values) {
  std::vector<std::byte> bytes(values.size() / sizeof(float));
  slices[f].output = bytes.data();
  slices[f].in_bytes = true;
  const int64_t example = 0;
  source.read({&example, 1}, slices);
  const auto* floats = reinterpret_cast<const float*>(values.data());
  for (size_t i = 0; i < bytes.size(); ++i)
    ASSERT_EQ(static_cast<float>(std::to_integer<int>(bytes[i])) / 255.0f, floats[i]) << i;
}

/// Checks that boxes of feature `f` of the first example have the values of the whole, also in bytes if the source has these.
inline void expect_boxes_of_the_whole(const Source& source, size_t f) {
  const Feature& feature = source.features()[f];
  const int64_t example = 0;
  std::vector<std::vector<std::byte>> buffers;
  std::vector<FeatureSlice> slices;
  for (const Feature& each : source.features())
    slices.push_back({buffers.emplace_back(static_cast<size_t>(each.bytes())).data()});
  source.read({&example, 1}, slices);
  const std::vector<std::byte> whole = buffers[f];
  for (int axis = 0; axis < feature.shape.rank(); ++axis) {
    for (int64_t begin = 0; begin < feature.shape[axis].size; ++begin) {
      Box box = Box::whole(feature.shape);
      box.begin[axis] = begin;
      box.shape = feature.shape.resized(feature.shape[axis].name, (feature.shape[axis].size - begin + 1) / 2);
      std::vector<std::byte> expected(whole.size());
      expected.resize(
          static_cast<size_t>(copy_box(feature, &box, whole.data(), expected.data()) - expected.data()));
      buffers[f].assign(expected.size(), std::byte{0});
      slices[f] = {buffers[f].data(), &box};
      source.read({&example, 1}, slices);
      EXPECT_EQ(buffers[f], expected) << feature.shape[axis].name << " from " << begin;
      if (source.has_bytes(f)) expect_bytes_of(source, f, slices, expected);
    }
  }
}

}  // namespace mtf::testing
