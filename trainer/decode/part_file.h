// A file that is there when it is whole: before, it is NAME.PID.part.
//
//   PartFile part("out.txt");
//   ::write(part.descriptor(), "Ein Haus .", 10);
//   part.finish();                              // out.txt
#pragma once

#include <memory>
#include <string>

#include "engine/base/file.h"
#include "engine/base/signals.h"

namespace mtf {

class PartFile {
 public:
  /// Removes first what killed processes have left of `target`. Throws Error (kSystem) when the file cannot
  /// be made.
  explicit PartFile(const std::string& target);
  /// Removes what was not finished; so do signals that end the process.
  ~PartFile();
  PartFile(const PartFile&) = delete;

  int descriptor() const { return file_->get(); }
  /// Gives the file, all of which is written, its name. False, with errno, when the system does not.
  bool finish();

 private:
  std::string target_, path_;
  RemovedBySignal guard_;
  std::unique_ptr<File> file_;  ///< holds a lock, by which others tell that its process lives
};

}  // namespace mtf
