#include "data/text/file_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "engine/core/error.h"

namespace mtf {

FileLock::FileLock(std::string path, const std::function<void()>& waiting) : path_(std::move(path)) {
  bool waited = false;
  do {
    file_ = std::make_unique<File>(path_, O_RDWR | O_CREAT, 0644);
    if (!file_->open()) {
      throw Error(ErrorKind::kSystem,
                  fmt::format("{}: cannot be written: {}", path_, system_message(file_->error())));
    }
    if (::flock(file_->get(), LOCK_EX | LOCK_NB) == 0) continue;
    if (errno != EWOULDBLOCK) return;  // a file system without locks
    if (waiting && !waited) waiting();
    waited = true;
    while (::flock(file_->get(), LOCK_EX) != 0 && errno == EINTR) continue;
  } while (!has_name());
}

FileLock::~FileLock() {
  if (has_name()) ::unlink(path_.c_str());
}

bool FileLock::has_name() const {
  struct stat opened {
  }, named{};
  return ::fstat(file_->get(), &opened) == 0 && ::stat(path_.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

}  // namespace mtf
