// The output of infer and score: standard output, a pipe or another device, or an atomically published file.
//
//   TextOutput output("out.{step}.txt", 1200);
//   output.line("Ein Haus .");
//   output.close();                              // publishes out.1200.txt
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

/// Throws Error (kConfig) if there are several checkpoints and the output's name does not contain {step}.
void check_output_names(const std::string& output, size_t checkpoints, const Mark& mark);

/// Returns `name` with {step} replaced by `step`.
std::string name_at_step(std::string name, int64_t step);

class TextOutput {
 public:
  /// The path "-" is standard output; {step} is replaced by `step`. An existing file of this name is replaced
  /// only by close(). Throws Error (kSystem) when the file cannot be created. While this or a later call
  /// waits for the reader of a pipe, it calls `waits` twice a second.
  TextOutput(
      const std::string& path, int64_t step, std::function<void()> waits = [] {});
  /// Removes a file that was not closed, as does a signal that ends the process. Lines that were not flushed
  /// are lost.
  ~TextOutput() = default;
  TextOutput(const TextOutput&) = delete;

  /// Adds a line. Throws Error (kSystem) when writing fails, as do flush() and close(); the process ends as by SIGPIPE
  /// when a pipe has lost its reader.
  void line(std::string_view text);
  void flush();
  /// Flushes, and publishes a file under its name.
  void close();

 private:
  void open_device();
  void wait_for_reader() const;
  void check(bool good) const;

  std::string path_;
  std::function<void()> waits_;
  std::unique_ptr<PartFile> part_;  ///< set if the output is a file
  std::unique_ptr<File> device_;    ///< set if the output is a device
  int descriptor_;
  std::string text_;  ///< lines that were not written yet
};

}  // namespace mtf
