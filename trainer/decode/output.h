// Where infer and score write lines: standard output, a pipe or another device, or a file that is there when
// it is whole.
//
//   TextOutput output("out.{step}.txt", 1200);
//   output.line("Ein Haus .");
//   output.close();                              // out.1200.txt
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "engine/base/error.h"
#include "engine/base/file.h"
#include "trainer/decode/part_file.h"

namespace mtf {

/// With several checkpoints the name of a file must have {step} in it; throws Error (kConfig).
void check_output_names(const std::string& output, size_t checkpoints, const Mark& mark);

class TextOutput {
 public:
  /// `path`: "-" is standard output; {step} becomes the number. Throws Error (kSystem) when the file cannot
  /// be made. A name that a file has already stays that file's until close(). Twice a second of waiting for
  /// somebody who reads from a pipe, here or later, it calls `waits`.
  TextOutput(
      const std::string& path, int64_t step, std::function<void()> waits = [] {});
  /// Removes a file that was not closed; a signal that ends the process does so, too. What was not flushed is
  /// lost.
  ~TextOutput() = default;
  TextOutput(const TextOutput&) = delete;

  /// Throws Error (kSystem), as do the others, when the system does not write.
  void line(std::string_view text);
  void flush();
  /// Gives a file its name.
  void close();

 private:
  void open_device();
  void wait_for_reader() const;
  void check(bool good) const;

  std::string path_;
  std::function<void()> waits_;
  std::unique_ptr<PartFile> part_;  ///< of a file
  std::unique_ptr<File> device_;    ///< of another path than "-"
  int descriptor_;
  std::string text_;  ///< not yet written
};

}  // namespace mtf
