// Helpers for tests of text sources: files of text, and the rows that a source makes of them.
#pragma once

#include <gmock/gmock.h>
#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <protozero/pbf_writer.hpp>
#include <string>
#include <vector>

#include "data/text/text_source.h"
#include "data/text/tfrecord.h"
#include "data/vocabulary/byte_vocabulary.h"
#include "engine/base/error.h"
#include "tests/support/failure.h"

namespace mtf::testing {

/// A fixture with a directory for each test, which contains the cache.
class TextTest : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(directory_); }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string path(const std::string& name) const { return directory_ + name; }
  std::string file(const std::string& name, const std::string& bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
    return path(name);
  }
  std::string compressed(const std::string& name, const std::string& bytes) const {
    const gzFile file = gzopen(path(name).c_str(), "wb");
    gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
    gzclose(file);
    return path(name);
  }

  /// Returns settings with bytes as tokens: byte b is id b + 3.
  TextSettings settings(int64_t inputs, int64_t targets, Packing packing = Packing::kNone) const {
    TextSettings settings;
    const auto bytes = std::make_shared<const ByteVocabulary>();
    settings.vocabularies = {bytes, bytes};
    settings.lengths = {inputs, targets};
    settings.packing = packing;
    settings.cache = path("cache");
    return settings;
  }

  const std::string directory_ = ::testing::TempDir() +
                                 ::testing::UnitTest::GetInstance()->current_test_info()->test_suite_name() +
                                 ::testing::UnitTest::GetInstance()->current_test_info()->name() + "/";
};

inline TextOptions text(const std::string& path, TextUnit join = TextUnit::kLine) {
  TextOptions options;
  options.path = {{path}};
  options.join = join;
  return options;
}

inline ParallelOptions parallel(const std::string& inputs, const std::string& targets) {
  ParallelOptions options;
  options.inputs = {{inputs}};
  options.targets = {{targets}};
  return options;
}

inline TsvOptions tsv(const std::string& path) {
  TsvOptions options;
  options.path = {{path}};
  return options;
}

inline TfrecordOptions tfrecord(const std::string& path) {
  TfrecordOptions options;
  options.path = {{path}};
  return options;
}

/// Returns a tf.Example with a list of integers, or one text, for each name.
inline std::string example_message(const std::vector<std::pair<std::string, std::vector<int64_t>>>& integers,
                                   const std::vector<std::pair<std::string, std::string>>& texts = {}) {
  std::string features;
  protozero::pbf_writer map(features);
  const auto add = [&](const std::string& name, const std::function<void(protozero::pbf_writer&)>& value) {
    protozero::pbf_writer entry(map, 1);
    entry.add_string(1, name);
    protozero::pbf_writer feature(entry, 2);
    value(feature);
  };
  for (const auto& [name, values] : integers) {
    add(name, [&](protozero::pbf_writer& feature) {
      protozero::pbf_writer list(feature, 3);
      list.add_packed_int64(1, values.begin(), values.end());
    });
  }
  for (const auto& [name, value] : texts) {
    add(name, [&](protozero::pbf_writer& feature) {
      protozero::pbf_writer list(feature, 1);
      list.add_string(1, value);
    });
  }
  std::string message;
  protozero::pbf_writer(message).add_message(1, features);
  return message;
}

/// Returns feature `name` of every example, [examples, length].
inline std::vector<std::vector<int32_t>> rows_of(const Source& source, const std::string& name) {
  std::vector<std::vector<std::byte>> buffers;
  std::vector<FeatureSlice> slices;
  size_t wanted = source.features().size();
  for (size_t f = 0; f < source.features().size(); ++f) {
    buffers.emplace_back(source.features()[f].bytes());
    slices.push_back({buffers.back().data()});
    if (source.features()[f].name == name) wanted = f;
  }
  EXPECT_LT(wanted, source.features().size()) << name;
  std::vector<std::vector<int32_t>> rows;
  for (int64_t row = 0; row < source.examples() && wanted < buffers.size(); ++row) {
    source.read({&row, 1}, slices);
    const auto* values = reinterpret_cast<const int32_t*>(buffers[wanted].data());
    rows.emplace_back(values, values + source.features()[wanted].shape.size());
  }
  return rows;
}

/// Decodes ids of bytes: "one|two|" for two texts, each with its end-of-sequence token.
inline std::string decoded(const std::vector<int32_t>& ids) {
  std::string text;
  for (const int32_t id : ids) {
    if (id == kEosId) text += '|';
    if (id > 2) text += static_cast<char>(id - 3);
  }
  return text;
}
inline std::vector<std::string> texts_of(const Source& source, const std::string& name) {
  std::vector<std::string> texts;
  for (const std::vector<int32_t>& row : rows_of(source, name)) texts.push_back(decoded(row));
  return texts;
}

}  // namespace mtf::testing
