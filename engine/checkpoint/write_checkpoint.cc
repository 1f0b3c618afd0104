#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "engine/checkpoint/blocks.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/directory.h"
#include "engine/checkpoint/file.h"
#include "engine/checkpoint/safetensors.h"
#include "engine/core/check.h"
#include "engine/core/error.h"
#include "engine/core/fault.h"
#include "engine/core/hash.h"

namespace mtf {
namespace {

/// Bytes that are hashed and then written: the write finds them in the second-level cache.
constexpr size_t piece_bytes = 512 << 10;
/// Bytes after which the disk begins to work, so that only a rest is waited for at the end.
constexpr size_t bytes_between_syncs = 16 << 20;

/// A checkpoint under its temporary name, which goes away with the object unless it was published. Each
/// system call stands behind the fault point of what was done before it.
class Unfinished {
 public:
  Unfinished(const std::string& directory, Manifest manifest)
      : directory_(directory),
        path_(fmt::format("{}/{}", directory, checkpoint_name(manifest.step))),
        temporary_(fmt::format("{}/{}", directory, unfinished_name(manifest.step))),
        replaced_(fmt::format("{}/{}", directory, replaced_name(manifest.step))),
        manifest_(std::move(manifest)) {
    manifest_.files.clear();
    manifest_.variables.clear();
  }
  ~Unfinished() {
    std::error_code ignored;
    std::filesystem::remove_all(temporary_, ignored);
  }
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;

  void create();
  void write_file(const CheckpointFile& file);
  void write_manifest();
  void publish();

 private:
  void check(int error) const {
    if (error != 0)
      throw Error(ErrorKind::kSystem, fmt::format("cannot write {}: {}", path_, system_message(error)));
  }
  template <class Fill>
  void write_synced(const std::string& name, const Fill& fill);
  std::string write(const File& file, std::span<const std::byte> bytes);
  CheckpointVariable& variable_of(const CheckpointTensor& tensor);
  int take_name(bool replaces, int fault);

  const std::string directory_, path_, temporary_, replaced_;
  Manifest manifest_;
  std::map<std::string, size_t> variables_;  ///< indices in the manifest
  size_t not_synced_ = 0;                    ///< bytes
};

void Unfinished::create() {
  check(fault_point("checkpoint.begin"));
  std::error_code error;
  const bool is_new = std::filesystem::create_directories(directory_, error);
  check(error.value());
  if (is_new) check(sync_directory(directory_of(directory_)));
  check(remove_tree(temporary_));  // of a save that was killed
  check(::mkdir(temporary_.c_str(), 0777) == 0 ? 0 : errno);
}

/// `fill` writes what the file holds.
template <class Fill>
void Unfinished::write_synced(const std::string& name, const Fill& fill) {
  check(fault_point(manifest_.files.empty() ? "checkpoint.create" : "checkpoint.file"));
  const File file(fmt::format("{}/{}", temporary_, name), O_WRONLY | O_CREAT | O_EXCL, 0666);
  check(file.error());
  fill(file);
  check(fault_point("checkpoint.written"));
  check(file.sync());
}

/// Returns the hash.
std::string Unfinished::write(const File& file, std::span<const std::byte> bytes) {
  Hash128 hash;
  while (!bytes.empty()) {
    const auto piece = bytes.first(std::min(bytes.size(), piece_bytes));
    hash.add(piece);
    check(fault_point("checkpoint.write"));
    check(file.write(piece));
    not_synced_ += piece.size();
    if (not_synced_ >= bytes_between_syncs) {
      file.start_sync();
      not_synced_ = 0;
    }
    bytes = bytes.subspan(piece.size());
  }
  return hash.hex();
}

CheckpointVariable& Unfinished::variable_of(const CheckpointTensor& tensor) {
  const auto [entry, is_new] = variables_.emplace(tensor.name, manifest_.variables.size());
  if (is_new)
    manifest_.variables.push_back(
        {.name = tensor.name, .dtype = tensor.dtype, .shape = tensor.shape, .blocks = {}});
  CheckpointVariable& variable = manifest_.variables[entry->second];
  MTF_CHECK(variable.dtype == tensor.dtype && variable.shape == tensor.shape,
            "variable {} is saved as {} {} and as {} {}", tensor.name, name_of(variable.dtype),
            variable.shape.to_string(), name_of(tensor.dtype), tensor.shape.to_string());
  return variable;
}

void Unfinished::write_file(const CheckpointFile& file) {
  std::vector<CheckpointBlock> blocks;
  std::vector<StoredTensor> stored;
  for (const CheckpointTensor& tensor : file.tensors) {
    CheckpointBlock block{.file = file.name,
                          .bytes = static_cast<int64_t>(tensor.data.size()),
                          .begin = tensor.begin,
                          .size = tensor.size,
                          .xxh128 = {}};
    if (tensor.begin.empty()) {
      block.begin.assign(tensor.shape.rank(), 0);
      block.size = sizes_of(tensor.shape);
    }
    stored.push_back({.name = tensor_name(tensor.name, tensor.shape, block.begin, block.size),
                      .dtype = tensor.dtype,
                      .shape = block.size,
                      .dimensions = names_of(tensor.shape),
                      .data = tensor.data});
    blocks.push_back(std::move(block));
  }
  const SafetensorsPlan plan = plan_safetensors(stored);
  CheckpointFileInfo info{
      .name = file.name, .header_bytes = static_cast<int64_t>(plan.header.size()), .header_xxh128 = {}};
  info.bytes = info.header_bytes;
  write_synced(file.name, [&](const File& output) {
    info.header_xxh128 = write(output, std::as_bytes(std::span(plan.header)));
    for (const StoredTensor* tensor : plan.order) {
      const auto index = static_cast<size_t>(tensor - stored.data());
      CheckpointBlock& block = blocks[index];
      block.offset = std::exchange(info.bytes, info.bytes + block.bytes);
      block.xxh128 = write(output, tensor->data);
      variable_of(file.tensors[index]).blocks.push_back(std::move(block));
    }
  });
  manifest_.files.push_back(std::move(info));
}

void Unfinished::write_manifest() {
  const std::string problem = problem_of_blocks(manifest_);
  MTF_CHECK(problem.empty(), "{}: {}", path_, problem);
  const std::string text = to_json(manifest_);
  write_synced(Manifest::kFile, [&](const File& output) { write(output, std::as_bytes(std::span(text))); });
}

/// Renames the directory. A checkpoint that has the name gets the temporary one: in the same moment, or a
/// moment before where the file system cannot exchange two names. `fault` stands for the first call.
int Unfinished::take_name(bool replaces, int fault) {
  const auto rename = [](const std::string& from, const std::string& to, unsigned flags = 0) {
    return ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), flags) == 0 ? 0 : errno;
  };
  if (!replaces) return fault != 0 ? fault : rename(temporary_, path_);
  const int error = fault != 0 ? fault : rename(temporary_, path_, RENAME_EXCHANGE);
  if (error != EINVAL && error != ENOSYS) return error;
  if (const int failure = rename(path_, replaced_)) return failure;
  if (const int failure = rename(temporary_, path_)) {
    rename(replaced_, path_);
    return failure;
  }
  return rename(replaced_, temporary_);
}

void Unfinished::publish() {
  check(fault_point("checkpoint.manifest"));
  check(sync_directory(temporary_));
  std::error_code none;
  const bool replaces = std::filesystem::exists(std::filesystem::symlink_status(path_, none));
  check(take_name(replaces, fault_point("checkpoint.sync")));
  int error = fault_point("checkpoint.rename");
  if (error == 0) error = sync_directory(directory_);
  if (error != 0) {  // back to what was there before
    if (replaces)
      take_name(true, 0);
    else
      std::rename(path_.c_str(), temporary_.c_str());
    check(error);
  }
  // The save has succeeded. What cannot be removed now, remove_unfinished() removes later.
  if (fault_point("checkpoint.parent") == 0) remove_tree(temporary_);
}

}  // namespace

void write_checkpoint(const std::string& directory, Manifest manifest,
                      std::span<const CheckpointFile> files) {
  Unfinished checkpoint(directory, std::move(manifest));
  checkpoint.create();
  for (const CheckpointFile& file : files) checkpoint.write_file(file);
  checkpoint.write_manifest();
  checkpoint.publish();
}

}  // namespace mtf
