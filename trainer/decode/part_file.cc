#include "trainer/decode/part_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "engine/base/error.h"
#include "engine/base/file_lock.h"

namespace mtf {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSuffix = ".part";

/// True if `name` has the form TARGET.PID.part.
bool is_part_of(std::string_view name, const std::string& target) {
  if (!name.starts_with(target + ".") || !name.ends_with(kSuffix)) return false;
  name.remove_prefix(target.size() + 1);
  if (name.size() <= kSuffix.size()) return false;
  name.remove_suffix(kSuffix.size());
  return std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
}

/// Removes a .part file unless a living process holds its lock.
void remove_if_left(const std::string& path) {
  const File file(path, O_RDWR, 0);
  if (file.open() && ::flock(file.get(), LOCK_EX | LOCK_NB) == 0 && has_name(file, path))
    ::unlink(path.c_str());
}

void remove_left_parts(const fs::path& target) {
  const fs::path directory = target.has_parent_path() ? target.parent_path() : fs::path(".");
  std::error_code ignored;
  for (fs::directory_iterator entry(directory, ignored), end; !ignored && entry != end;
       entry.increment(ignored)) {
    if (is_part_of(entry->path().filename().string(), target.filename().string()))
      remove_if_left(entry->path().string());
  }
}

[[noreturn]] void cannot_write(const std::string& target, const std::string& reason) {
  throw Error(ErrorKind::kSystem, fmt::format("cannot write {}: {}", target, reason),
              "a file in a directory that exists and can be written");
}

/// Creates and locks a .part file. It tries again if another process, which took the file for an abandoned
/// one, removed it before it was locked.
std::unique_ptr<File> make_part(const std::string& path, const std::string& target) {
  remove_left_parts(target);
  while (true) {
    auto file = std::make_unique<File>(path, O_RDWR | O_CREAT, 0666);
    if (!file->open()) cannot_write(target, system_message(file->error()));
    if (::flock(file->get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
      cannot_write(target, fmt::format("another process writes {}", path));
    if (!has_name(*file, path)) continue;
    if (::ftruncate(file->get(), 0) != 0) cannot_write(target, system_message(errno));
    return file;
  }
}

}  // namespace

PartFile::PartFile(const std::string& target)
    : target_(target),
      path_(fmt::format("{}.{}{}", target, ::getpid(), kSuffix)),
      guard_(path_),
      file_(make_part(path_, target)) {}

PartFile::~PartFile() {
  if (!path_.empty()) ::unlink(path_.c_str());
}

bool PartFile::finish() {
  // Closing reports delayed write errors. A duplicate is closed, so that the lock is held until the rename.
  const int copy = ::dup(file_->get());
  if (copy < 0 || ::close(copy) != 0) return false;
  if (std::rename(path_.c_str(), target_.c_str()) != 0) return false;
  path_.clear();
  return true;
}

}  // namespace mtf
