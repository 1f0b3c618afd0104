// Files as the system gives them: descriptors that close themselves, mappings, and writes that are on the
// disk when they say so. Functions that return int return 0 or the system's error number.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace mtf {

/// A file descriptor that is closed at the end of its life.
class File {
 public:
  /// As open(2).
  File(const std::string& path, int flags, int mode = 0);
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  bool open() const { return descriptor_ >= 0; }
  /// Why it is not open.
  int error() const { return error_; }
  int get() const { return descriptor_; }

  /// Appends all of `bytes`.
  int write(std::span<const std::byte> bytes) const;
  /// Comes back when all that was written is on the disk.
  int sync() const;
  /// Lets the disk begin with what was written so far.
  void start_sync() const;

 private:
  int descriptor_;
  int error_;
};

/// Comes back when the names in a directory are on the disk. File systems that cannot do this are trusted.
int sync_directory(const std::string& path);

/// Writes a file so that it is the old one or the whole new one; the new one is on the disk.
int write_file(const std::string& path, std::span<const std::byte> bytes);

/// The directory in which `path` lies: "." when it has no other.
std::string directory_of(const std::string& path);

/// A directory, made with those above it where they are not there. Those that it made and that are empty at
/// the end of its life go with it.
class MadeDirectory {
 public:
  /// Throws Error (kSystem) when it cannot be created.
  explicit MadeDirectory(const std::string& path);
  ~MadeDirectory();
  MadeDirectory(const MadeDirectory&) = delete;
  MadeDirectory& operator=(const MadeDirectory&) = delete;

 private:
  std::vector<std::string> made_;  ///< the deepest first
};

/// A directory that is held open, to notice when its path no longer leads to it.
class HeldDirectory {
 public:
  explicit HeldDirectory(std::string path);

  const std::string& path() const { return path_; }
  /// What has become of it: "was renamed to /runs/old", "was removed"; empty: the path leads to it, or that
  /// cannot be told.
  std::string change() const;

 private:
  std::string path_;
  File directory_;
};

/// The bytes of a file, mapped read-only. The constructor throws Error (kCheckpoint) when there is no such
/// file or it cannot be read.
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
