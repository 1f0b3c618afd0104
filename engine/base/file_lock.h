// One process at a time, by a file that lies beside what it guards.
//
//   const FileLock lock(path + ".lock", [&] { progress.info("another process makes " + path); });
//   if (!exists(path)) make(path);
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "engine/base/file.h"

namespace mtf {

/// True when the file that is open still has this name: another process may have removed it.
bool has_name(const File& file, const std::string& path);

/// Keeps out other processes, and other locks of this one, during its life; the file goes with it. Where the
/// file system knows no locks nobody is kept out: then work may be done twice.
class FileLock {
 public:
  /// Waits; `waiting` (may be empty) is called once when another holds the lock. Throws Error (kSystem) when
  /// the file cannot be made.
  FileLock(std::string path, const std::function<void()>& waiting);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  std::string path_;
  std::unique_ptr<File> file_;
};

}  // namespace mtf
