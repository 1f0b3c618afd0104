#include "engine/base/append_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <span>
#include <tuple>

#include "engine/base/error.h"

namespace mtf {
namespace {

void check(const std::string& path, int error) {
  if (error != 0) throw_not_written(path, error);
}

void copy_range(const std::string& path, const File& from, const File& to, ByteRange range) {
  std::vector<std::byte> buffer(1 << 20);
  while (range.begin < range.end) {
    const auto size = static_cast<size_t>(std::min<int64_t>(range.end - range.begin, std::ssize(buffer)));
    const ssize_t got = ::pread(from.get(), buffer.data(), size, range.begin);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      const std::string reason = got < 0 ? system_message(errno) : "it became shorter";
      throw Error(ErrorKind::kSystem, fmt::format("{}: cannot be read: {}", path, reason));
    }
    check(path, to.write({buffer.data(), static_cast<size_t>(got)}));
    range.begin += got;
  }
}

}  // namespace

void throw_not_written(const std::string& path, int error) {
  throw Error(ErrorKind::kSystem, fmt::format("{}: cannot be written: {}", path, system_message(error)));
}

AppendFile::AppendFile(std::string path) : path_(std::move(path)) { open(); }

void AppendFile::open() {
  file_.emplace(path_, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  check(path_, file_->error());
}

bool AppendFile::is_there() const {
  struct stat at_path {
  }, opened{};
  if (::stat(path_.c_str(), &at_path) != 0) return errno != ENOENT;
  return ::fstat(file_->get(), &opened) != 0 ||
         (at_path.st_dev == opened.st_dev && at_path.st_ino == opened.st_ino);
}

void AppendFile::write(std::string_view block) {
  if (!is_there()) open();
  const off_t before = ::lseek(file_->get(), 0, SEEK_END);
  const int error = file_->write(std::as_bytes(std::span(block)));
  if (error == 0) return;
  // When the disk is full, the beginning of the block may have been written. Files that cannot be truncated
  // (devices) keep nothing.
  if (before >= 0) std::ignore = ::ftruncate(file_->get(), before);
  throw_not_written(path_, error);
}

void add_range(std::vector<ByteRange>& ranges, ByteRange range) {
  if (!ranges.empty() && ranges.back().end == range.begin) {
    ranges.back().end = range.end;
  } else {
    ranges.push_back(range);
  }
}

void keep_ranges(const std::string& path, const std::vector<ByteRange>& ranges) {
  const std::string copy = std::filesystem::path(path).replace_filename("cut.tmp").string();
  std::error_code ignored;
  std::filesystem::remove(copy, ignored);  // left by a call that was killed

  const File file(path, O_RDWR | O_CLOEXEC);
  check(path, file.error());
  if (ranges.empty() || (ranges.size() == 1 && ranges[0].begin == 0)) {
    const int64_t size = ranges.empty() ? 0 : ranges[0].end;
    if (::lseek(file.get(), 0, SEEK_END) != size && ::ftruncate(file.get(), size) != 0)
      throw_not_written(path, errno);
    return;
  }
  try {
    const File output(copy, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    check(copy, output.error());
    for (const ByteRange& range : ranges) copy_range(path, file, output, range);
    check(copy, output.sync());
    if (::rename(copy.c_str(), path.c_str()) != 0) throw_not_written(path, errno);
  } catch (const Error&) {
    std::filesystem::remove(copy, ignored);
    throw;
  }
}

}  // namespace mtf
