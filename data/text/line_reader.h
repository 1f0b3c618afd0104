// Reads the lines of a text file, plain or gzip-compressed.
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

/// What to do with a text that is not UTF-8.
inline constexpr std::string_view kConvertToUtf8 =
    "convert it to UTF-8, for example with `iconv -f ISO-8859-1 -t UTF-8`";

/// Says where `text` is not valid UTF-8: "no UTF-8: byte \xf6 after 2 characters"; nothing if it is.
std::optional<std::string> invalid_utf8(std::string_view text);

/// Adds a problem if `text`, from line or record (`unit`) `number` of the file `path`, is not valid UTF-8.
void check_utf8(std::string_view text, const std::string& path, std::string_view unit, int64_t number,
                TextProblems& problems);

/// True for a line of white space, or none.
bool is_blank_line(std::string_view line);

class LineReader {
 public:
  /// Throws Error (kData) when the file cannot be opened.
  LineReader(const std::string& path, TextProblems& problems, const TextLimit& limit = {});
  LineReader(const LineReader&) = delete;

  /// Returns the next line, which is valid until the next call; nullopt at the end of the file. Line ends
  /// ("\n" or "\r\n") and a byte order mark are not included. A line that is not valid UTF-8 adds a problem.
  /// Throws Error when the rest cannot be read: kData if a line exceeds the limit.
  std::optional<std::string_view> next();

  /// The number of the line that was returned last; the first is 1.
  int64_t line() const { return lines_.line(); }
  const std::string& path() const { return file_.path(); }
  /// The number of bytes read from the file so far, counted before decompression.
  int64_t bytes_read() const { return file_.bytes_read(); }

 private:
  void check_first(std::string_view line);

  InputFile file_;
  LineSplitter lines_;
  TextProblems& problems_;
  bool is_text_ = true;  ///< false: by its first bytes the file is no text; the problem was reported
};

}  // namespace mtf
