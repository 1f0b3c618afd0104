// Helpers for tests of checkpoints: a temporary directory, variables with known elements, and ways to cut
// them into blocks.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/fault.h"
#include "engine/checkpoint/checkpoint.h"

namespace mtf {

struct Rectangle {
  std::vector<int64_t> begin, size;
};

/// A variable with its elements in row-major order.
struct SourceVariable {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape;
  std::vector<std::byte> elements;

  Rectangle whole() const { return {std::vector<int64_t>(shape.rank(), 0), shape.sizes()}; }
};

inline SourceVariable random_variable(std::string name, DType dtype, Shape shape, std::mt19937& random) {
  SourceVariable variable{std::move(name), dtype, std::move(shape), {}};
  variable.elements.resize(static_cast<size_t>(bytes_of(variable.shape, dtype)));
  for (std::byte& element : variable.elements) element = static_cast<std::byte>(random());
  return variable;
}

/// Returns the elements of a rectangle, copied one by one.
inline std::vector<std::byte> elements_of(const SourceVariable& variable, const Rectangle& rectangle) {
  const size_t width = size_of(variable.dtype);
  int64_t count = 1;
  for (const int64_t size : rectangle.size) count *= size;
  std::vector<std::byte> elements;
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i, index = 0, stride = 1;
    for (int axis = variable.shape.rank() - 1; axis >= 0; --axis) {
      index += (rectangle.begin[axis] + rest % rectangle.size[axis]) * stride;
      rest /= rectangle.size[axis];
      stride *= variable.shape[axis].size;
    }
    const auto first = variable.elements.begin() + index * static_cast<int64_t>(width);
    elements.insert(elements.end(), first, first + static_cast<int64_t>(width));
  }
  return elements;
}

/// Cuts a rectangle into up to `count` pieces at random places.
inline std::vector<Rectangle> random_tiling(const Rectangle& whole, size_t count, std::mt19937& random) {
  std::vector<Rectangle> pieces = {whole};
  for (size_t attempt = 1; attempt < count && !whole.size.empty(); ++attempt) {
    Rectangle& piece = pieces[random() % pieces.size()];
    const size_t axis = random() % piece.size.size();
    if (piece.size[axis] < 2) continue;
    const auto cut = static_cast<int64_t>(1 + random() % static_cast<uint64_t>(piece.size[axis] - 1));
    Rectangle upper = piece;
    upper.begin[axis] += cut;
    upper.size[axis] -= cut;
    piece.size[axis] = cut;
    pieces.push_back(upper);
  }
  std::ranges::shuffle(pieces, random);
  return pieces;
}

inline Rectangle random_rectangle(const Shape& shape, std::mt19937& random) {
  Rectangle rectangle;
  for (const Dimension& dimension : shape) {
    const auto size = static_cast<int64_t>(1 + random() % static_cast<uint64_t>(dimension.size));
    rectangle.size.push_back(size);
    rectangle.begin.push_back(
        static_cast<int64_t>(random() % static_cast<uint64_t>(dimension.size - size + 1)));
  }
  return rectangle;
}

inline CheckpointTensor whole_tensor(const SourceVariable& variable) {
  return {variable.name, variable.dtype, variable.shape, {}, {}, variable.elements};
}

/// Returns a small manifest without files and variables.
inline Manifest small_manifest(int64_t step) {
  Manifest manifest;
  manifest.step = step;
  manifest.seed = 0xfedcba9876543210u;
  manifest.config_hash = "0123";
  manifest.next_rows = {{"train", 640}};
  manifest.instruction_set = "avx2";
  manifest.mesh = "rows=2 cols=2";
  manifest.state = {{"seconds", 1.25}};
  manifest.metrics = {{"test/loss", 0.1}};
  return manifest;
}

/// Returns the elements of a rectangle as read from the checkpoint.
inline std::vector<std::byte> read_elements(CheckpointReader& reader, const std::string& name,
                                            const Rectangle& rectangle) {
  int64_t count = 1;
  for (const int64_t size : rectangle.size) count *= size;
  const CheckpointVariable* variable = reader.find(name);
  if (variable == nullptr) return {};
  std::vector<std::byte> elements(static_cast<size_t>(count) * size_of(variable->dtype));
  reader.read(name, rectangle.begin, rectangle.size, elements.data());
  return elements;
}

inline std::string contents_of(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// Replaces a file. It removes the old one first, because overwriting would make the file system wait for the
/// disk.
inline void write_contents(const std::filesystem::path& file, const std::string& contents) {
  std::filesystem::remove(file);
  std::ofstream(file, std::ios::binary).write(contents.data(), std::ssize(contents));
}

/// Returns the names in a directory, sorted.
inline std::vector<std::string> names_in(const std::filesystem::path& directory) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory))
    names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

/// Returns the message of the Error that `action` throws; empty if it throws none.
template <class Action>
std::string message_of(const Action& action, ErrorKind kind = ErrorKind::kCheckpoint) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  return {};
}

/// Sets MTF_FAULT until it is destroyed, and restarts the count of passings.
class ScopedFault {
 public:
  explicit ScopedFault(const std::string& fault) {
    ::setenv("MTF_FAULT", "save.done", 1);  // a change of the value ends the previous count
    fault_point("checkpoint.begin");
    ::setenv("MTF_FAULT", fault.c_str(), 1);
  }
  ~ScopedFault() { ::unsetenv("MTF_FAULT"); }
};

/// A test with its own directory, `directory()`, which does not exist at first.
class CheckpointTest : public ::testing::Test {
 protected:
  CheckpointTest() {
    std::filesystem::remove_all(parent_);
    std::filesystem::create_directories(parent_);
  }
  ~CheckpointTest() override { std::filesystem::remove_all(parent_); }

  std::string directory() const { return (parent_ / "checkpoints").string(); }
  std::string path_of(int64_t step) const { return directory() + "/" + checkpoint_name(step); }

  std::mt19937 random_{7};

 private:
  const std::filesystem::path parent_ = std::filesystem::path(::testing::TempDir()) /
                                        ::testing::UnitTest::GetInstance()->current_test_info()->name();
};

}  // namespace mtf
