#include "engine/base/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/shortened_files.h"

namespace mtf {
namespace {

constexpr std::string_view kPartial = ".partial-";

}  // namespace

File::File(const std::string& path, int flags, int mode)
    : descriptor_(::open(path.c_str(), flags | O_CLOEXEC, mode)), error_(descriptor_ < 0 ? errno : 0) {}

File::~File() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

int File::write(std::span<const std::byte> bytes) const {
  constexpr size_t most_at_once = 1 << 30;  // Linux writes at most 2 GiB per call
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), std::min(bytes.size(), most_at_once));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return 0;
}

int File::sync() const { return ::fsync(descriptor_) == 0 ? 0 : errno; }

void File::start_sync() const { ::sync_file_range(descriptor_, 0, 0, SYNC_FILE_RANGE_WRITE); }

int sync_directory(const std::string& path) {
  const File directory(path, O_RDONLY | O_DIRECTORY);
  const int error = directory.open() ? directory.sync() : directory.error();
  return error == EINVAL || error == ENOSYS || error == ENOTSUP || error == EACCES ? 0 : error;
}

std::string partial_path(const std::string& path) {
  return fmt::format("{}{}{}", path, kPartial, ::getpid());
}

std::string_view without_partial(std::string_view path) {
  const size_t end = path.find_last_not_of("0123456789") + 1;
  if (end == path.size() || !path.substr(0, end).ends_with(kPartial)) return path;
  return path.substr(0, end - kPartial.size());
}

std::vector<std::string> partial_files(const std::string& path) {
  namespace fs = std::filesystem;
  const std::string name = fs::path(path).filename().string();
  std::vector<std::string> files;
  std::error_code error;
  for (fs::directory_iterator entry(directory_of(path), error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string found = entry->path().filename().string();
    if (found != name && without_partial(found) == name) files.push_back(entry->path().string());
  }
  return files;
}

int write_file(const std::string& path, std::span<const std::byte> bytes) {
  return write_file(path, std::span(&bytes, 1));
}

int write_file(const std::string& path, std::span<const std::span<const std::byte>> parts) {
  const std::string temporary = partial_path(path);
  const auto write = [&] {
    const File file(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0666);
    if (!file.open()) return file.error();
    for (const std::span<const std::byte> part : parts) {
      if (const int error = file.write(part)) return error;
    }
    return file.sync();
  };
  int error = write();
  if (error == 0 && ::rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error != 0) {
    ::unlink(temporary.c_str());
    return error;
  }
  return sync_directory(directory_of(path));
}

std::string directory_of(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

MadeDirectory::MadeDirectory(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  for (fs::path p = path; !p.empty() && !fs::exists(p, error); p = p.parent_path()) made_.push_back(p);
  fs::create_directories(path, error);
  if (error) throw Error(ErrorKind::kSystem, fmt::format("{}: cannot be created: {}", path, error.message()));
}

MadeDirectory::~MadeDirectory() {
  for (const std::string& path : made_) {
    if (::rmdir(path.c_str()) != 0) break;
  }
}

HeldDirectory::HeldDirectory(std::string path)
    : path_(std::move(path)), directory_(path_, O_RDONLY | O_DIRECTORY) {}

std::string HeldDirectory::change() const {
  struct stat held {
  }, there{};
  if (!directory_.open() || ::fstat(directory_.get(), &held) != 0) return {};
  if (::stat(path_.c_str(), &there) == 0) {
    if (held.st_dev == there.st_dev && held.st_ino == there.st_ino) return {};
  } else if (errno != ENOENT && errno != ENOTDIR && errno != ELOOP && errno != ESTALE) {
    return {};
  }
  std::error_code error;
  const auto now = std::filesystem::read_symlink(fmt::format("/proc/self/fd/{}", directory_.get()), error);
  const bool removed = error || held.st_nlink == 0 || now.string().ends_with(" (deleted)");
  return removed ? "was removed" : fmt::format("was renamed to {}", now.string());
}

MappedFile::MappedFile(const std::string& path) : path_(path) {
  const auto cannot = [&](const std::string& why) {
    throw Error(ErrorKind::kCheckpoint, fmt::format("cannot read {}: {}", path, why));
  };
  const File file(path, O_RDONLY | O_NONBLOCK);  // so that opening a named pipe does not block
  struct stat status {};
  if (!file.open()) cannot(system_message(file.error()));
  if (::fstat(file.get(), &status) != 0) cannot(system_message(errno));
  if (!S_ISREG(status.st_mode)) cannot("it is no regular file");
  if (status.st_size == 0) return;
  void* const memory =
      ::mmap(nullptr, static_cast<size_t>(status.st_size), PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (memory == MAP_FAILED) cannot(system_message(errno));
  memory_ = memory;
  size_ = static_cast<size_t>(status.st_size);
  watch_mapping(memory_, size_, path_);
}

MappedFile::~MappedFile() {
  if (memory_ == nullptr) return;
  forget_mapping(memory_);
  ::munmap(memory_, size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      memory_(std::exchange(other.memory_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(memory_, other.memory_);
  std::swap(size_, other.size_);
  return *this;
}

}  // namespace mtf
