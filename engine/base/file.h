// Files of the operating system: descriptors that close themselves, memory mappings, and durable writes.
// Functions that return int return 0 or the system's error number.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mtf {

/// A file descriptor that its destructor closes.
class File {
 public:
  /// Opens the file as open(2) does, with O_CLOEXEC.
  File(const std::string& path, int flags, int mode = 0);
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  bool open() const { return descriptor_ >= 0; }
  /// The system's error number if the file could not be opened, otherwise 0.
  int error() const { return error_; }
  int get() const { return descriptor_; }

  /// Appends all of `bytes`.
  int write(std::span<const std::byte> bytes) const;
  /// Returns when everything that was written is on the disk.
  int sync() const;
  /// Starts to write to the disk what was written so far, without waiting for it.
  void start_sync() const;

 private:
  int descriptor_;
  int error_;
};

/// Returns when the entries of a directory are on the disk. File systems that do not support this are
/// trusted, as are directories that may be written but not read.
int sync_directory(const std::string& path);

/// Replaces a file atomically and durably: at any moment it is the old or the complete new file, even if two processes
/// write it, and on return the new one is on the disk. The file consists of the parts, one after the other.
int write_file(const std::string& path, std::span<const std::span<const std::byte>> parts);
int write_file(const std::string& path, std::span<const std::byte> bytes);

/// Returns the path under which this process writes a file until it is complete: PATH.partial-PID. A process that is
/// killed leaves it.
std::string partial_path(const std::string& path);
/// Returns PATH for PATH.partial-PID, and any other path unchanged.
std::string_view without_partial(std::string_view path);
/// Returns the files PATH.partial-PID that are there, of any process, unordered.
std::vector<std::string> partial_files(const std::string& path);

/// Returns the directory of `path`: "." if it names none.
std::string directory_of(const std::string& path);

/// Creates a directory and its missing parents. The destructor removes those that it created and that are
/// empty.
class MadeDirectory {
 public:
  /// Throws Error (kSystem) if the directory cannot be created.
  explicit MadeDirectory(const std::string& path);
  ~MadeDirectory();
  MadeDirectory(const MadeDirectory&) = delete;
  MadeDirectory& operator=(const MadeDirectory&) = delete;

 private:
  std::vector<std::string> made_;  ///< the deepest comes first
};

/// Holds a directory open, to notice when its path no longer leads to it.
class HeldDirectory {
 public:
  explicit HeldDirectory(std::string path);

  /// Says what happened to the directory: "was renamed to /runs/old" or "was removed"; empty if its path
  /// still leads to it, or if this cannot be determined.
  std::string change() const;

 private:
  std::string path_;
  File directory_;
};

/// A file that is mapped read-only. The constructor throws Error (kCheckpoint) if there is no such regular
/// file or if it cannot be read.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(memory_), size_}; }

 private:
  std::string path_;
  void* memory_ = nullptr;
  size_t size_ = 0;
};

}  // namespace mtf
