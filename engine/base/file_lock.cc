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

FileLock::FileLock(std::string path, const std::function<void()>& waiting) : path_(std::move(path)) {
  bool waited = false;
  do {
    file_ = std::make_unique<File>(path_, O_RDWR | O_CREAT, 0644);
    if (!file_->open()) {
      constexpr std::string_view kSuffix = ".lock";
      const std::string guarded =
          path_.ends_with(kSuffix) ? path_.substr(0, path_.size() - kSuffix.size()) : path_;
      throw Error(ErrorKind::kSystem,
                  fmt::format("{}: cannot be written: {}", guarded, system_message(file_->error())));
    }
    if (::flock(file_->get(), LOCK_EX | LOCK_NB) == 0) continue;
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
