// An atomically published file: it is written as NAME.PID.part and gets its name in finish().
//
//   PartFile part("out.txt");
//   ::write(part.descriptor(), "Ein Haus .", 10);
//   part.finish();                              // renames it to out.txt
#pragma once

#include <memory>
#include <string>

#include "engine/base/file.h"
#include "engine/base/signals.h"

namespace mtf {

class PartFile {
 public:
  /// Removes the .part files of `target` that killed processes have left, and creates a new one. Throws Error
  /// (kSystem) when the file cannot be created.
  explicit PartFile(const std::string& target);
  /// Removes a file that was not finished, as do signals that end the process.
  ~PartFile();
  PartFile(const PartFile&) = delete;

  int descriptor() const { return file_->get(); }
  /// Publishes the file, all of which must be written, under its name; false, with errno, on failure.
  bool finish();

 private:
  std::string target_, path_;
  RemovedBySignal guard_;
  std::unique_ptr<File> file_;  ///< locked, which shows other processes that this process is alive
};

}  // namespace mtf
