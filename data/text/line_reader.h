// Lines of a text file, plain or gzip-compressed.
//
//   LineReader lines("train.en.gz", problems);
//   while (const std::optional<std::string_view> line = lines.next()) ...
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "data/input_file.h"
#include "data/text/line_splitter.h"
#include "data/text/text_problems.h"

namespace mtf {

/// Adds to `problems` when `text`, which stands in line (or record) `number` of the file, is no UTF-8.
void check_utf8(std::string_view text, const std::string& path, std::string_view unit, int64_t number,
                TextProblems& problems);

class LineReader {
 public:
  /// Throws Error (kData) when the file cannot be opened.
  LineReader(const std::string& path, TextProblems& problems, const TextLimit& limit = {});
  LineReader(const LineReader&) = delete;

  /// The next line, valid until the next call; none at the end of the file. It ends with "\n", "\r\n" or the
  /// file, which are not part of it; nor is a byte order mark. Lines that are no UTF-8 are added to the
  /// problems. Throws Error when the file cannot be read on: kData for a line above the limit.
  std::optional<std::string_view> next();

  /// Number of the line returned last; the first is 1.
  int64_t line() const { return lines_.line(); }
  const std::string& path() const { return file_.path(); }
  /// Bytes of the file itself, before decompression, that were read so far.
  int64_t bytes_read() const { return file_.bytes_read(); }

 private:
  void check_first(std::string_view line);

  InputFile file_;
  LineSplitter lines_;
  TextProblems& problems_;
  bool is_text_ = true;  ///< false: something else was found in the first line, and reported
};

}  // namespace mtf
