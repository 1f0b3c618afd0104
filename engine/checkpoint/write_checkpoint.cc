#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/base/fault.h"
#include "engine/base/file.h"
#include "engine/base/hash.h"
#include "engine/checkpoint/blocks.h"
#include "engine/checkpoint/checkpoint_writer.h"
#include "engine/checkpoint/directory.h"
#include "engine/safetensors/safetensors.h"

namespace mtf {
namespace {

/// The number of bytes that are hashed and then written, so that the write finds them in the second-level
/// cache.
constexpr size_t piece_bytes = 512 << 10;
/// The number of bytes after which writing to the disk is started, so that the sync at the end waits only for
/// the rest.
constexpr size_t bytes_between_syncs = 16 << 20;

/// Collects the blocks of variables from several files and processes.
class Variables {
 public:
  explicit Variables(std::vector<CheckpointVariable>& all) : all_(all) {
    for (const CheckpointVariable& variable : all) indices_.emplace(variable.name, indices_.size());
  }

  void add(const std::string& name, DType dtype, const Shape& shape, CheckpointBlock block) {
    const auto [entry, is_new] = indices_.emplace(name, all_.size());
    if (is_new) all_.push_back({.name = name, .dtype = dtype, .shape = shape, .blocks = {}});
    CheckpointVariable& variable = all_[entry->second];
    MTF_CHECK(variable.dtype == dtype && variable.shape == shape,
              "variable {} is saved as {} {} and as {} {}", name, name_of(variable.dtype),
              variable.shape.to_string(), name_of(dtype), shape.to_string());
    variable.blocks.push_back(std::move(block));
  }

 private:
  std::vector<CheckpointVariable>& all_;
  std::map<std::string, size_t> indices_;
};

}  // namespace

CheckpointWriter::CheckpointWriter(const std::string& directory, int64_t step)
    : directory_(directory),
      path_(fmt::format("{}/{}", directory, checkpoint_name(step))),
      temporary_(fmt::format("{}/{}", directory, unfinished_name(step))),
      replaced_(fmt::format("{}/{}", directory, replaced_name(step))) {}

CheckpointWriter::~CheckpointWriter() {
  std::error_code ignored;
  if (begun_) std::filesystem::remove_all(temporary_, ignored);
}

/// Throws an Error for an error number of the system. The fault point before a system call is named after
/// what was done before.
void CheckpointWriter::check(int error) const {
  if (error != 0)
    throw Error(ErrorKind::kSystem, fmt::format("cannot write {}: {}", path_, system_message(error)));
}

void CheckpointWriter::begin() {
  begun_ = true;
  check(fault_point("checkpoint.begin"));
  std::error_code error;
  const bool is_new = std::filesystem::create_directory(directory_, error);
  check(error.value());
  if (is_new) check(sync_directory(directory_of(directory_)));
  check(remove_tree(temporary_));  // left by a save that was killed
  check(::mkdir(temporary_.c_str(), 0777) == 0 ? 0 : errno);
}

/// Creates a file, whose contents `fill` writes, and syncs it.
template <class Fill>
void CheckpointWriter::write_synced(const std::string& name, const Fill& fill) {
  check(fault_point(files_++ == 0 ? "checkpoint.create" : "checkpoint.file"));
  const File file(fmt::format("{}/{}", temporary_, name), O_WRONLY | O_CREAT | O_EXCL, 0666);
  check(file.error());
  fill(file);
  check(fault_point("checkpoint.written"));
  check(file.sync());
}

/// Writes the bytes and returns their hash.
std::string CheckpointWriter::write_hashed(const File& file, std::span<const std::byte> bytes) {
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

void CheckpointWriter::write_file(const CheckpointFile& file, WrittenPart& part) {
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
      block.size = tensor.shape.sizes();
    }
    stored.push_back({.name = tensor_name(tensor.name, tensor.shape, block.begin, block.size),
                      .dtype = tensor.dtype,
                      .shape = block.size,
                      .dimensions = tensor.shape.names(),
                      .data = tensor.data});
    blocks.push_back(std::move(block));
  }
  Variables variables(part.variables);
  const SafetensorsPlan plan = plan_safetensors(stored);
  CheckpointFileInfo info{
      .name = file.name, .header_bytes = static_cast<int64_t>(plan.header.size()), .header_xxh128 = {}};
  info.bytes = info.header_bytes;
  write_synced(file.name, [&](const File& output) {
    info.header_xxh128 = write_hashed(output, std::as_bytes(std::span(plan.header)));
    for (const StoredTensor* tensor : plan.order) {
      const auto index = static_cast<size_t>(tensor - stored.data());
      CheckpointBlock& block = blocks[index];
      block.offset = std::exchange(info.bytes, info.bytes + block.bytes);
      block.xxh128 = write_hashed(output, tensor->data);
      const CheckpointTensor& saved = file.tensors[index];
      variables.add(saved.name, saved.dtype, saved.shape, std::move(block));
    }
  });
  part.files.push_back(std::move(info));
}

WrittenPart CheckpointWriter::write(std::span<const CheckpointFile> files) {
  WrittenPart part;
  for (const CheckpointFile& file : files) write_file(file, part);
  return part;
}

void CheckpointWriter::check_files(const WrittenPart& part) const {
  for (const CheckpointFileInfo& file : part.files) {
    std::error_code error;
    const auto bytes = std::filesystem::file_size(fmt::format("{}/{}", temporary_, file.name), error);
    if (!error && static_cast<int64_t>(bytes) == file.bytes) continue;
    throw Error(ErrorKind::kSystem, fmt::format("cannot write {}: the file {} of {} is not there", path_,
                                                file.name, part.writer));
  }
}

void CheckpointWriter::finish(Manifest manifest, std::span<const WrittenPart> parts) {
  manifest.files.clear();
  manifest.variables.clear();
  Variables variables(manifest.variables);
  for (const WrittenPart& part : parts) {
    check_files(part);
    manifest.files.insert(manifest.files.end(), part.files.begin(), part.files.end());
    for (const CheckpointVariable& variable : part.variables) {
      for (const CheckpointBlock& block : variable.blocks)
        variables.add(variable.name, variable.dtype, variable.shape, block);
    }
  }
  write_manifest(manifest);
  publish();
}

void CheckpointWriter::write_manifest(const Manifest& manifest) {
  const std::string problem = problem_of_blocks(manifest);
  MTF_CHECK(problem.empty(), "{}: {}", path_, problem);
  const std::string text = to_json(manifest);
  write_synced(Manifest::kFile,
               [&](const File& output) { write_hashed(output, std::as_bytes(std::span(text))); });
}

/// Renames the directory. A checkpoint that already has the name gets the temporary name, in the same
/// operation, or just before on file systems that cannot exchange two names. `fault` replaces the result of
/// the first call.
int CheckpointWriter::take_name(bool replaces, int fault) {
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

void CheckpointWriter::publish() {
  check(fault_point("checkpoint.manifest"));
  check(sync_directory(temporary_));
  std::error_code none;
  const bool replaces = std::filesystem::exists(std::filesystem::symlink_status(path_, none));
  check(take_name(replaces, fault_point("checkpoint.sync")));
  int error = fault_point("checkpoint.rename");
  if (error == 0) error = sync_directory(directory_);
  if (error != 0) {  // restores the previous state
    if (replaces)
      take_name(true, 0);
    else
      std::rename(path_.c_str(), temporary_.c_str());
    check(error);
  }
  // The save has succeeded. Whatever cannot be removed now is removed later by remove_unfinished().
  if (fault_point("checkpoint.parent") == 0) remove_tree(temporary_);
}

void write_checkpoint(const std::string& directory, Manifest manifest,
                      std::span<const CheckpointFile> files) {
  std::error_code seen_by_begin;
  std::filesystem::create_directories(directory_of(directory), seen_by_begin);
  CheckpointWriter writer(directory, manifest.step);
  writer.begin();
  const WrittenPart part = writer.write(files);
  writer.finish(std::move(manifest), {&part, 1});
}

}  // namespace mtf
