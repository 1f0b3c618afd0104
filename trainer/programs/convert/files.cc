#include "trainer/programs/convert/files.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <span>

#include "engine/base/error.h"
#include "engine/base/file.h"
#include "engine/checkpoint/directory.h"

namespace mtf {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void cannot_write(const std::string& path, int error) {
  throw Error(ErrorKind::kSystem, fmt::format("{}: cannot be written: {}", path, system_message(error)));
}

[[noreturn]] void is_there(const std::string& path) {
  throw Error(ErrorKind::kSystem, path + " is there already", "another name, or `--force`");
}

bool holds_model(const fs::path& directory) {
  return fs::exists(directory / "config.yaml") || fs::exists(directory / "config.json");
}

}  // namespace

std::string read_text_file(const std::string& path) {
  const MappedFile file(path);
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

void write_text_file(const std::string& path, const std::string& text) {
  if (const int error = write_file(path, std::as_bytes(std::span(text)))) cannot_write(path, error);
}

void check_new_file(const std::string& path, bool replace) {
  std::error_code ignored;
  if (!fs::exists(fs::symlink_status(path, ignored))) return;
  if (!replace) is_there(path);
  if (!fs::is_regular_file(path, ignored))
    throw Error(ErrorKind::kSystem, path + " is no regular file, and is not replaced", "another name");
}

NewDirectory::NewDirectory(const std::string& path, bool replace)
    : target_(fs::absolute(path).lexically_normal().string()) {
  if (target_.ends_with('/')) target_.pop_back();
  std::error_code error;
  if (fs::exists(fs::symlink_status(target_, error))) {
    const bool directory = fs::is_directory(target_, error);
    if (!(directory && fs::is_empty(target_, error))) {
      if (!replace) is_there(path);
      if (!directory || !holds_model(target_))
        throw Error(ErrorKind::kSystem, path + " holds no model, and is not replaced", "another name");
    }
  }
  const fs::path target(target_);
  unfinished_ =
      (target.parent_path() / fmt::format(".{}.{}.tmp", target.filename().string(), ::getpid())).string();
  fs::create_directories(unfinished_, error);
  if (error) cannot_write(path, error.value());
}

NewDirectory::~NewDirectory() {
  if (!unfinished_.empty()) remove_tree(unfinished_);
}

void NewDirectory::publish() {
  const std::string old = unfinished_ + ".old";
  if (const int error = sync_directory(unfinished_)) cannot_write(target_, error);
  // rename(2) replaces an empty directory, but no other.
  if (std::rename(unfinished_.c_str(), target_.c_str()) != 0) {
    if (errno != ENOTEMPTY && errno != EEXIST) cannot_write(target_, errno);
    if (std::rename(target_.c_str(), old.c_str()) != 0) cannot_write(target_, errno);
    if (std::rename(unfinished_.c_str(), target_.c_str()) != 0) {
      const int error = errno;
      (void)std::rename(old.c_str(), target_.c_str());
      cannot_write(target_, error);
    }
    remove_tree(old);
  }
  unfinished_.clear();
  sync_directory(directory_of(target_));
}

}  // namespace mtf
