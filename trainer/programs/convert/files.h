// Reads and writes text files, and creates directories atomically.
//
//   NewDirectory directory("models/t5", false);      // throws if the path exists
//   write_text_file(directory.path() + "/config.yaml", text);
//   directory.publish();
#pragma once

#include <string>

namespace mtf {

/// Returns the content of a file. Throws Error (kCheckpoint).
std::string read_text_file(const std::string& path);
/// Writes a file. Throws Error (kSystem).
void write_text_file(const std::string& path, const std::string& text);

/// Throws Error (kSystem) when `path` exists, unless `replace` is true and it is a regular file.
void check_new_file(const std::string& path, bool replace);

/// An atomically published directory: it is filled under another name in the same parent directory.
class NewDirectory {
 public:
  /// `path` must not exist or be an empty directory or, with `replace`, one that holds a model: a config.yaml
  /// or config.json. Throws Error (kSystem).
  NewDirectory(const std::string& path, bool replace);
  /// Removes a directory that was not published.
  ~NewDirectory();
  NewDirectory(const NewDirectory&) = delete;
  NewDirectory& operator=(const NewDirectory&) = delete;

  /// The path under which the directory is filled.
  const std::string& path() const { return unfinished_; }
  /// Renames the directory to its final name. Throws Error (kSystem).
  void publish();

 private:
  std::string target_;
  std::string unfinished_;
};

}  // namespace mtf
