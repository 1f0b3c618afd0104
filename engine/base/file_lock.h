// FileLock lets only one process at a time make a file: it locks another file beside it.
//
//   const FileLock lock(path + ".lock", [&] { progress.info("another process makes " + path); });
//   if (!exists(path)) make(path);
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "engine/base/file.h"

namespace mtf {

/// True if `path` still names the file that is open; another process may have removed it.
bool has_name(const File& file, const std::string& path);

/// Excludes other processes, and other locks of this process, until it is destroyed; the destructor removes
/// the lock file. On a file system without locks nobody is excluded: work may then be done twice.
class FileLock {
 public:
  /// Waits for the lock; `waiting` (may be empty) is called once if another process holds it. Throws Error
  /// (kSystem) if the lock file cannot be created.
  FileLock(std::string path, const std::function<void()>& waiting);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  std::string path_;
  std::unique_ptr<File> file_;
};

}  // namespace mtf
