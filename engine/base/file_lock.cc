#include "engine/base/file_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "engine/base/error.h"

namespace mtf {

bool has_name(const File& file, const std::string& path) {
  struct stat opened {
  }, named{};
  return ::fstat(file.get(), &opened) == 0 && ::stat(path.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

namespace {

/// Opens the lock file. One that another user has left may be only readable, which suffices except on NFS.
std::unique_ptr<File> open_lock(const std::string& path) {
  auto file = std::make_unique<File>(path, O_RDWR | O_CREAT, 0666);
  if (file->error() != EACCES) return file;
  auto readable = std::make_unique<File>(path, O_RDONLY);
  return readable->open() ? std::move(readable) : std::move(file);
}

/// The file that cannot be written if the lock file cannot be opened: the lock, if it is there, or what it guards.
std::string unwritable(const std::string& lock) {
  constexpr std::string_view kSuffix = ".lock";
  struct stat status {};
  const bool guards = lock.ends_with(kSuffix) && ::stat(lock.c_str(), &status) != 0;
  return guards ? lock.substr(0, lock.size() - kSuffix.size()) : lock;
}

}  // namespace

FileLock::FileLock(std::string path, const std::function<void()>& waiting) : path_(std::move(path)) {
  const auto fail = [&](int error) {
    throw Error(ErrorKind::kSystem,
                fmt::format("{}: cannot be written: {}", unwritable(path_), system_message(error)));
  };
  bool waited = false;
  do {
    file_ = open_lock(path_);
    if (!file_->open()) fail(file_->error());
    if (::flock(file_->get(), LOCK_EX | LOCK_NB) == 0) continue;
    if (errno == EBADF) fail(EACCES);  // NFS locks only what may be written
    if (errno != EWOULDBLOCK) return;  // the file system has no locks
    if (waiting && !waited) waiting();
    waited = true;
    while (::flock(file_->get(), LOCK_EX) != 0 && errno == EINTR) continue;
  } while (!has_name(*file_, path_));  // the previous holder may have removed it
}

FileLock::~FileLock() {
  if (has_name(*file_, path_)) ::unlink(path_.c_str());
}

}  // namespace mtf
