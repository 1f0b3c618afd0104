// Where infer and score write lines: standard output, a pipe or another device, or a file that is there when
// it is whole.
//
//   TextOutput output("out.{step}.txt", 1200);
//   output.line("Ein Haus .");
//   output.close();                              // out.1200.txt
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include "engine/core/error.h"
#include "trainer/decode/part_file.h"

namespace mtf {

/// With several checkpoints the name of a file must have {step} in it; throws Error (kConfig).
void check_output_names(const std::string& output, size_t checkpoints, const Mark& mark);

class TextOutput {
 public:
  /// `path`: "-" is standard output; {step} becomes the number. Throws Error (kSystem) when the file cannot
  /// be made. A name that a file has already stays that file's until close().
  TextOutput(const std::string& path, int64_t step);
  /// Removes a file that was not closed; a signal that ends the process does so, too.
  ~TextOutput();
  TextOutput(const TextOutput&) = delete;

  /// Throws Error (kSystem), as do the others, when the system does not write.
  void line(std::string_view text);
  void flush();
  /// Gives a file its name.
  void close();

 private:
  void check(bool good) const;

  std::string path_;
  std::unique_ptr<PartFile> part_;  ///< of a file; null: written directly
  std::FILE* file_;
};

}  // namespace mtf
