#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/hash.h"
#include "engine/checkpoint/blocks.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/directory.h"
#include "engine/core/rectangle.h"
#include "engine/safetensors/safetensors.h"

namespace mtf {
namespace {

/// Opens a file of the checkpoint; checks its size and header against the manifest.
SafetensorsFile open_file(const std::string& directory, const CheckpointFileInfo& info) {
  const std::string path = fmt::format("{}/{}", directory, info.name);
  if (!std::filesystem::exists(path)) throw_damaged(path, "it is missing");
  MappedFile file(path);
  const std::span<const std::byte> bytes = file.bytes();
  if (std::ssize(bytes) != info.bytes)
    throw_damaged(file.path(),
                  fmt::format("it has {} bytes, the manifest says {}", bytes.size(), info.bytes));
  if (hash128_hex(bytes.first(static_cast<size_t>(info.header_bytes))) != info.header_xxh128)
    throw_damaged(file.path(), "its header does not have the checksum of the manifest");
  return SafetensorsFile(std::move(file));
}

Shape resized(const Shape& shape, std::span<const int64_t> size) {
  std::vector<Dimension> dimensions = shape.dimensions();
  for (size_t axis = 0; axis < dimensions.size(); ++axis) dimensions[axis].size = size[axis];
  return Shape(std::move(dimensions));
}

}  // namespace

class CheckpointReader::Implementation {
 public:
  explicit Implementation(const std::string& directory);

  const std::string& path() const { return path_; }
  const Manifest& manifest() const { return manifest_; }
  const CheckpointVariable* find(std::string_view name) const;
  void read(const std::string& name, std::span<const int64_t> begin, std::span<const int64_t> size,
            std::byte* to);
  void verify();

 private:
  /// A block of the manifest with its data.
  struct Block {
    const CheckpointBlock* place;
    Shape shape;
    std::span<const std::byte> data;
    const std::string* file;
    bool is_checked = false;
  };

  Block find_block(const CheckpointVariable& variable, const CheckpointBlock& place) const;
  static void check_data(const CheckpointVariable& variable, Block& block);

  std::string path_;
  Manifest manifest_;
  std::map<std::string, SafetensorsFile, std::less<>> files_;
  std::map<std::string, size_t, std::less<>> variables_;  ///< index of each variable in the manifest
  std::vector<std::vector<Block>> blocks_;                ///< blocks of each variable of the manifest
};

CheckpointReader::Implementation::Implementation(const std::string& directory)
    : path_(directory), manifest_(read_manifest(directory)) {
  const std::optional<int64_t> step = step_of(std::filesystem::path(directory).filename().string());
  if (step.value_or(manifest_.step) != manifest_.step)
    throw_damaged(fmt::format("{}/{}", directory, Manifest::kFile),
                  fmt::format("it is the manifest of step {}", manifest_.step));
  for (const CheckpointFileInfo& info : manifest_.files)
    files_.emplace(info.name, open_file(directory, info));

  std::map<std::string_view, size_t> tensors;  // number of tensors of the manifest in each file
  for (const CheckpointVariable& variable : manifest_.variables) {
    variables_.emplace(variable.name, blocks_.size());
    std::vector<Block>& blocks = blocks_.emplace_back();
    for (const CheckpointBlock& place : variable.blocks) {
      blocks.push_back(find_block(variable, place));
      ++tensors[place.file];
    }
  }
  for (const auto& [name, file] : files_)
    if (file.tensors().size() != tensors[name])
      throw_damaged(file.path(), fmt::format("it has {} tensors, the manifest says {}", file.tensors().size(),
                                             tensors[name]));
}

/// Finds the block in its file, whose header must agree with the manifest.
CheckpointReader::Implementation::Block CheckpointReader::Implementation::find_block(
    const CheckpointVariable& variable, const CheckpointBlock& place) const {
  const SafetensorsFile& file = files_.find(place.file)->second;
  const std::string name = tensor_name(variable.name, variable.shape, place.begin, place.size);
  const StoredTensor* tensor = file.find(name);
  if (tensor == nullptr)
    throw_damaged(file.path(), fmt::format("variable `{}`: there is no tensor `{}`", variable.name, name));
  if (tensor->dtype != variable.dtype || tensor->shape != place.size || tensor->offset != place.offset ||
      tensor->dimensions != variable.shape.names())
    throw_damaged(file.path(), fmt::format("variable `{}`: the manifest and the header of the file say "
                                           "different things about tensor `{}`",
                                           variable.name, name));
  return {.place = &place,
          .shape = resized(variable.shape, place.size),
          .data = tensor->data,
          .file = &file.path()};
}

void CheckpointReader::Implementation::check_data(const CheckpointVariable& variable, Block& block) {
  if (block.is_checked) return;
  if (hash128_hex(block.data) != block.place->xxh128)
    throw_damaged(*block.file, fmt::format("variable `{}`: its data do not have the checksum of the manifest",
                                           variable.name));
  block.is_checked = true;
}

const CheckpointVariable* CheckpointReader::Implementation::find(std::string_view name) const {
  const auto entry = variables_.find(name);
  return entry == variables_.end() ? nullptr : &manifest_.variables[entry->second];
}

void CheckpointReader::Implementation::read(const std::string& name, std::span<const int64_t> begin,
                                            std::span<const int64_t> size, std::byte* to) {
  const auto entry = variables_.find(name);
  MTF_CHECK(entry != variables_.end(), "{} has no variable {}", path_, name);
  const CheckpointVariable& variable = manifest_.variables[entry->second];
  const size_t rank = variable.shape.dimensions().size();
  MTF_CHECK(begin.size() == rank && size.size() == rank, "{} has rank {}", name, rank);
  for (size_t axis = 0; axis < rank; ++axis)
    MTF_CHECK(begin[axis] >= 0 && size[axis] >= 1 &&
                  begin[axis] <= variable.shape[static_cast<int>(axis)].size - size[axis],
              "[{}] of size [{}] is not within {}", fmt::join(begin, ", "), fmt::join(size, ", "),
              variable.shape.to_string());

  const Shape wanted = resized(variable.shape, size);
  for (Block& block : blocks_[entry->second]) {
    // The common rectangle: its size, and its first element within the block and within the wanted rectangle.
    std::vector<int64_t> common(rank), in_block(rank), in_wanted(rank);
    bool is_empty = false;
    for (size_t axis = 0; axis < rank; ++axis) {
      const int64_t block_begin = block.place->begin[axis];
      const int64_t first = std::max(block_begin, begin[axis]);
      common[axis] = std::min(block_begin + block.place->size[axis], begin[axis] + size[axis]) - first;
      in_block[axis] = first - block_begin;
      in_wanted[axis] = first - begin[axis];
      is_empty = is_empty || common[axis] <= 0;
    }
    if (is_empty) continue;
    check_data(variable, block);
    copy_rectangle(resized(variable.shape, common), size_of(variable.dtype), block.data.data(),
                   {block.shape, in_block}, to, {wanted, in_wanted});
  }
}

void CheckpointReader::Implementation::verify() {
  for (size_t i = 0; i < blocks_.size(); ++i)
    for (Block& block : blocks_[i]) check_data(manifest_.variables[i], block);
}

CheckpointReader::CheckpointReader(const std::string& directory)
    : implementation_(std::make_unique<Implementation>(directory)) {}
CheckpointReader::~CheckpointReader() = default;
CheckpointReader::CheckpointReader(CheckpointReader&&) noexcept = default;

const std::string& CheckpointReader::path() const { return implementation_->path(); }
const Manifest& CheckpointReader::manifest() const { return implementation_->manifest(); }
const CheckpointVariable* CheckpointReader::find(std::string_view name) const {
  return implementation_->find(name);
}
void CheckpointReader::read(const std::string& name, std::span<const int64_t> begin,
                            std::span<const int64_t> size, std::byte* to) {
  implementation_->read(name, begin, size, to);
}
void CheckpointReader::verify() { implementation_->verify(); }

}  // namespace mtf
