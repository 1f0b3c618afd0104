// Files and directories that appear whole or not at all.
//
//   NewDirectory directory("models/t5", false);      // throws where something is there already
//   write_text_file(directory.path() + "/config.yaml", text);
//   directory.publish();
#pragma once

#include <string>

namespace mtf {

/// Throws Error (kCheckpoint).
std::string read_text_file(const std::string& path);
/// Throws Error (kSystem).
void write_text_file(const std::string& path, const std::string& text);

/// Throws Error (kSystem) when something stands at `path`, unless `replace` is true and it is a regular file.
void check_new_file(const std::string& path, bool replace);

/// A directory that is filled under another name beside it.
class NewDirectory {
 public:
  /// An empty directory may stand at `path`; with `replace` one that holds a model: a config.yaml or
  /// config.json. Throws Error (kSystem).
  NewDirectory(const std::string& path, bool replace);
  /// Removes what was not published.
  ~NewDirectory();
  NewDirectory(const NewDirectory&) = delete;
  NewDirectory& operator=(const NewDirectory&) = delete;

  /// Where it is filled.
  const std::string& path() const { return unfinished_; }
  /// Gives it its name. Throws Error (kSystem).
  void publish();

 private:
  std::string target_;
  std::string unfinished_;
};

}  // namespace mtf
